import { type Context, Hono } from "hono";
import { makeQuestionLink } from "../../auth/answer-link.ts";
import { type IndexedQuestion, listQuestions } from "../../index/question-index.ts";
import type { Caller } from "../../protocol/caller.ts";
import { type AgentRequest, parseClientRequestId } from "../../protocol/ids.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import { makerOf } from "../../protocol/maker.ts";
import {
  type AnsweredQuestion,
  type PendingQuestion,
  QUESTION_ANSWER,
  QUESTIONS_QUERY,
  type QuestionLink,
  type QuestionList,
  type QuestionRequest,
} from "../../protocol/question-rest.ts";
import { unknownQuestion } from "../../protocol/refusal.ts";
import { answerLinksRequest } from "../../protocol/rest.ts";
import type { AppEnv } from "../app-env.ts";
import { parseBody, parseOptionalBody, parseQuery } from "../input.ts";
import { requireScope } from "../middleware/authentication.ts";
import { RefusalException, unwrap } from "../refusal-response.ts";
import { askSession, askTenant, sessionOf } from "../targets.ts";
import { noLinks } from "./permissions.ts";

/** Questions that wait in the caller's sessions, and answers to them from outside a connection. */
export const questionRoutes = new Hono<AppEnv>();

questionRoutes.get("/questions", async (c) => {
  const { limit, cursor } = parseQuery(c, QUESTIONS_QUERY);
  const caller = c.get("caller");
  const { questions, nextCursor } = await listQuestions(c.env.INDEX, caller, limit, cursor);
  return c.json<QuestionList>({ questions: questions.map((one) => shownTo(caller, one)), nextCursor });
});

/** The whole question. Its text may come from a tool, and tool data is for those who may answer. */
questionRoutes.get("/questions/:id", requireScope("permission:answer"), async (c) => {
  const request = requestOf(c);
  const caller = c.get("caller");
  const { sessionId } = request;
  const summary = unwrap(
    await askSession(c, sessionId, (session) => session.questionSummary(caller, request)),
  );
  const requestedSchema = schemaOf(summary.requestedSchema);
  return c.json<QuestionRequest>({ id: c.req.param("id"), sessionId, ...summary, requestedSchema });
});

questionRoutes.post("/questions/:id", requireScope("permission:answer"), async (c) => {
  const id = c.req.param("id");
  const request = requestOf(c);
  const { action, content } = await parseBody(c, QUESTION_ANSWER);
  const session = sessionOf(c, request.sessionId);
  const answer = content === undefined ? { action } : { action, content };
  unwrap(await session.answerQuestion(c.get("caller"), request, answer, "rest"));
  return c.json<AnsweredQuestion>({ id, action });
});

/** Makes a link to the question's form. Whoever opens the link may answer, see answer-link/. */
questionRoutes.post(
  "/questions/:id/links",
  requireScope("share"),
  requireScope("permission:answer"),
  async (c) => {
    const request = requestOf(c);
    const { sessionId: session, seq } = request;
    const { expiresIn } = await parseOptionalBody(c, answerLinksRequest(c.get("limits")));
    const caller = c.get("caller");
    const { tenant, subject: by } = caller;
    const { workspace } = unwrap(await askSession(c, session, (one) => one.questionSummary(caller, request)));
    const id = crypto.randomUUID();
    const expires = Math.floor(Date.now() / 1000) + expiresIn;
    const link = { tenant, workspace, session, seq, by, maker: makerOf(caller), id, expires };
    const url = await makeQuestionLink(c.env, new URL(c.req.url).origin, link);
    if (url === undefined) throw noLinks();
    const registration = { id, session, workspace, seq, expires: expires * 1000 };
    unwrap(await askTenant(c, (object) => object.registerAnswerLinks(caller, registration)));
    const expiresAt = isoTime(expires * 1000);
    return c.json<QuestionLink>({ id, question: c.req.param("id"), expiresAt, url }, 201);
  },
);

function requestOf(c: Context<AppEnv, "/questions/:id">): AgentRequest {
  const id = c.req.param("id");
  const request = parseClientRequestId(id);
  if (!request) throw new RefusalException(unknownQuestion(id));
  return request;
}

/** A redacted caller learns that a question waits, and not what it says. */
function shownTo({ redacted }: Caller, { requestedSchema, ...question }: IndexedQuestion): PendingQuestion {
  if (redacted) return { ...question, message: null, requestedSchema: null, url: null };
  return { ...question, requestedSchema: schemaOf(requestedSchema) };
}

function schemaOf(text: string | null): QuestionRequest["requestedSchema"] {
  return text === null ? null : (JSON.parse(text) as Record<string, unknown>);
}
