import { derivedUuid } from "../durable/derived-uuid.ts";
import { sessionObject, workspaceObject } from "../durable/object-names.ts";
import type { Caller } from "../protocol/caller.ts";
import { type DialectName, readOffer, translate, translateOpening } from "../protocol/dialects/index.ts";
import {
  ErrorCode,
  errorResponse,
  type RpcError,
  resultResponse,
  unknownSession,
} from "../protocol/errors.ts";
import { ExtensionMethod } from "../protocol/extensions.ts";
import type { Frame, RequestFrame } from "../protocol/frame.ts";
import { isUuid, parseClientRequestId } from "../protocol/ids.ts";
import { recordOf } from "../protocol/json-value.ts";
import { LIMITS } from "../protocol/limits.ts";
import { hasMcpServers, longestValue } from "../protocol/mcp-credentials.ts";
import { offeredIo } from "../protocol/methods.ts";
import { redactedResult } from "../session/core/read/redaction/redaction.ts";
import { type Payment, Purse } from "../tenant/client/quota-spender.ts";
import { exceeded, mayOpenSession } from "../tenant/quotas.ts";
import { type Client, type Exchange, subscriptionsOf } from "./client.ts";
import { costOf, QuotaExceeded } from "./message-cost.ts";
import { answerPermission } from "./methods/answer-permission.ts";
import { checkInitialize, initializeResult } from "./methods/initialize.ts";
import { ownMethod } from "./methods/local-methods.ts";
import { renew } from "./methods/renew-token.ts";
import { Outbox, type Refusal } from "./session-outbox.ts";

/**
 * What becomes of a client's message: answered here, or passed to the session it names. Ids need no table: a
 * session answers in the client's own ids, and the ids of an agent's requests say which session they belong to.
 */
export class Router {
  readonly #env: Env;
  readonly #client: Client;
  readonly #purse: Purse;
  readonly #outboxes = new Map<string, Outbox>();

  constructor(env: Env, client: Client) {
    this.#env = env;
    this.#client = client;
    this.#purse = new Purse(env);
  }

  /**
   * Before anything comes of a message, frame or not, it is counted. False: it is a request, and was refused because
   * its sender has no more of a quota; what is no request throws then. At once if the client's allowance suffices.
   */
  admit(chars: number, frame: Frame | undefined, exchange: Exchange): boolean | Promise<boolean> {
    const { caller, allowance } = this.#client.state;
    const paid = this.#purse.pay(caller, allowance, costOf(chars, frame));
    return paid instanceof Promise
      ? paid.then((payment) => this.#counted(payment, frame, exchange))
      : this.#counted(paid, frame, exchange);
  }

  /** One write for both: which message it is, and what is left after it. */
  #counted({ allowance, short }: Payment, frame: Frame | undefined, exchange: Exchange): boolean {
    const sent = exchange.number ?? this.#client.state.sent + 1;
    this.#client.change({ sent, ...(allowance && { allowance }) });
    if (short === undefined) return true;
    const error = exceeded(short);
    if (frame?.kind !== "request") throw new QuotaExceeded(error);
    this.#refuse(frame, exchange, error);
    return false;
  }

  async initialize(frame: RequestFrame, { answer }: Exchange): Promise<void> {
    const { state } = this.#client;
    const id = frame.idText;
    const { dialect, offer, answered } = readOffer(frame.value.params);
    const error = state.initialized
      ? { code: ErrorCode.invalidRequest, message: "Already initialized" }
      : checkInitialize(offer);
    if (error) return answer(errorResponse(id, error));
    const choice = await this.#workspace().choose(state.caller, state.agent);
    if ("refused" in choice) {
      const { refused: message, agents } = choice;
      return answer(errorResponse(id, { code: ErrorCode.invalidParams, message, data: { agents } }));
    }
    this.#client.change({ initialized: true, agent: choice.agent, dialect, serves: offeredIo(offer) });
    const result = initializeResult(answerOf(choice.initialize, state.caller));
    answer(resultResponse(id, answered(result)));
  }

  route(frame: Frame, exchange: Exchange): Promise<void> {
    // Before all else: a token must not get into anybody's log.
    if (frame.method === ExtensionMethod.renewToken) return this.#renew(frame, exchange);
    const { dialect } = this.#client.state;
    return dialect === null ? this.#route(frame, exchange) : this.#translate(dialect, frame, exchange);
  }

  async #renew(frame: Frame, exchange: Exchange): Promise<void> {
    const renewed = await renew(this.#env, this.#client, frame);
    if ("error" in renewed) this.#refuse(frame, exchange, renewed.error);
    else if (frame.kind === "request") exchange.answer(resultResponse(frame.idText, renewed.result));
  }

  async #translate(dialect: DialectName, frame: Frame, exchange: Exchange): Promise<void> {
    const said = translate(dialect, frame);
    if ("frame" in said) return this.#route(said.frame, exchange);
    if ("refuse" in said) return this.#refuse(frame, exchange, said.refuse);
    const error = await answerPermission(this.#env, this.#client.state, said.permission);
    if (error) return this.#refuse(frame, exchange, error);
    if (frame.kind === "request") exchange.answer(resultResponse(frame.idText, {}));
  }

  async #route(frame: Frame, exchange: Exchange): Promise<void> {
    if (frame.kind === "response") {
      // A response nobody asked for has nowhere to go and nothing to answer it with.
      const target = parseClientRequestId(frame.value.id)?.sessionId;
      return target === undefined ? undefined : this.#forward(target, frame, exchange);
    }
    const tooLong = checkMcpServers(frame);
    if (tooLong) return this.#refuse(frame, exchange, tooLong);
    if (OPENING.has(frame.method ?? "")) await this.#makeRoom();
    if (await this.#own(frame, exchange)) return;
    if (frame.method === "session/new") return this.#open(frame, exchange);
    if (frame.method === "session/delete" && frame.kind === "request") return this.#delete(frame, exchange);
    if (frame.sessionId !== undefined) return this.#forward(frame.sessionId, frame, exchange);
    if (sessionScoped(frame)) return this.#refuse(frame, exchange, NO_SESSION_ID);
    if (exchange.session !== undefined) return this.#forward(exchange.session, frame, exchange);
    if (frame.method === "$/cancel_request") {
      // It names a request, not a session: the one that has it will know.
      for (const sessionId of this.#client.sessions()) this.#forward(sessionId, frame, exchange);
      return;
    }
    const error = { code: ErrorCode.methodNotFound, message: `Method not found: ${frame.method}` };
    this.#refuse(frame, exchange, error);
  }

  /** False: it is none of the methods that the connection answers. */
  async #own(frame: Frame, exchange: Exchange): Promise<boolean> {
    if (frame.kind !== "request") return false;
    const { connection, caller } = this.#client.state;
    const here = { connection, caller, subscriptions: subscriptionsOf(this.#client.state) };
    const own = await ownMethod(this.#env, here, frame);
    if (!own) return false;
    if ("forProcess" in own) await this.#forProcess(frame, exchange);
    else if ("error" in own) this.#refuse(frame, exchange, own.error);
    else {
      if (own.opened) this.#client.opened(own.opened.sessionId, own.opened.attach);
      exchange.answer(resultResponse(frame.idText, own.result));
    }
    return true;
  }

  #refuse(frame: Frame, { answer }: Exchange, error: RpcError): void {
    if (frame.kind === "request") answer(errorResponse(frame.idText, error));
  }

  async #open(frame: Frame, exchange: Exchange): Promise<void> {
    if (frame.kind !== "request") return;
    const error = checkNewSession(frame.value.params);
    if (error) return this.#refuse(frame, exchange, error);
    const opening = translateOpening(frame);
    if ("refuse" in opening) return this.#refuse(frame, exchange, opening.refuse);
    await this.#makeSession(frame, exchange, opening.frame.raw, await this.#unopened());
  }

  /** The session whose process has been logged in for the next session/new, if there is one. */
  async #unopened(): Promise<string | undefined> {
    const { connection, opening, agent } = this.#client.state;
    if (opening === undefined || !this.#client.sessions().includes(opening)) return undefined;
    return (await this.#session(opening).isAwaitingOpening(connection, agent ?? "")) ? opening : undefined;
  }

  /** False: it was refused. */
  async #makeSession(
    frame: RequestFrame,
    exchange: Exchange,
    raw: string | null,
    expected?: string,
  ): Promise<boolean> {
    const sessionId = expected ?? (await this.#newSessionId(exchange));
    const tooMany = this.#client.sessions().includes(sessionId) ? undefined : this.#tooMany();
    if (tooMany) {
      this.#refuse(frame, exchange, tooMany);
      return false;
    }
    const { connection, caller, workspace, agent } = this.#client.state;
    const spent = expected === undefined ? await mayOpenSession(this.#env, caller) : undefined;
    if (spent) {
      this.#refuse(frame, exchange, spent);
      return false;
    }
    this.#client.opens(sessionId, frame.idText);
    this.#client.change({ opening: sessionId });
    const subscriptions = subscriptionsOf(this.#client.state);
    const order = { sessionId, connection, caller, workspace, agent: agent ?? "", raw, subscriptions };
    await this.#session(sessionId).open(order);
    return true;
  }

  /**
   * A login is the agent's, but an agent is there only for a session. So the newest one's takes it, which tells the
   * others; before the first, one is started that the next session/new opens a session in.
   */
  async #forProcess(frame: RequestFrame, exchange: Exchange): Promise<void> {
    const newest = this.#client.sessions().at(-1);
    if (newest !== undefined) this.#client.opens(newest, frame.idText);
    else if (!(await this.#makeSession(frame, exchange, null))) return;
    this.#forward(this.#client.sessions().at(-1) as string, frame, exchange);
  }

  /** Sessions whose reading rests go on. */
  async wake(): Promise<void> {
    const { connection } = this.#client.state;
    await Promise.allSettled(this.#client.sessions().map((id) => this.#session(id).wake(connection)));
  }

  /** What one session's agent was told, for those of the others. */
  async relay(from: string, raw: string): Promise<void> {
    const { caller } = this.#client.state;
    const others = this.#client.sessions().filter((sessionId) => sessionId !== from);
    await Promise.allSettled(others.map((sessionId) => this.#session(sessionId).relay(caller, raw)));
  }

  /** Deleting what is not there, or not the caller's, succeeds as well. */
  async #delete(frame: RequestFrame, exchange: Exchange): Promise<void> {
    const { sessionId } = frame;
    if (sessionId === undefined) return this.#refuse(frame, exchange, NO_SESSION_ID);
    if (isUuid(sessionId) && (await this.#session(sessionId).delete(this.#client.state.caller)).ok)
      this.#client.letsGo(sessionId);
    exchange.answer(resultResponse(frame.idText, {}));
  }

  /** Puts a frame in the session's outbox; a session that does not know the caller answers as if it did not exist. */
  #forward(sessionId: string, frame: Frame, exchange: Exchange): void {
    const refuse = (why: Refusal) => {
      const error =
        why === "unknown"
          ? unknownSession(sessionId)
          : { code: ErrorCode.internal, message: "The session could not be reached" };
      this.#refuse(frame, exchange, error);
    };
    if (!isUuid(sessionId)) return refuse("unknown");
    const tooMany = this.#client.sessions().includes(sessionId) ? undefined : this.#tooMany();
    if (tooMany) return this.#refuse(frame, exchange, tooMany);
    let outbox = this.#outboxes.get(sessionId);
    if (!outbox) {
      outbox = new Outbox((batch) => this.#send(sessionId, batch));
      this.#outboxes.set(sessionId, outbox);
    }
    // Numbers grow, so that a session knows a frame that comes a second time.
    const number = exchange.number ?? this.#client.state.sent;
    const sent = outbox.put({ frame: frame.raw, number }, refuse);
    exchange.waitFor(sent.then(() => this.#tidy(sessionId)));
  }

  /** A client may name any number of sessions, also such as are not there. */
  #tidy(sessionId: string): void {
    if (this.#outboxes.get(sessionId)?.isEmpty) this.#outboxes.delete(sessionId);
  }

  /** The same request, should it come a second time, asks for the same session. */
  #newSessionId({ number }: Exchange): Promise<string> | string {
    const { connection } = this.#client.state;
    return number === undefined ? crypto.randomUUID() : derivedUuid(`${connection}/${number}`);
  }

  /** One batch for one session, numbered, so that a call repeated after a reset of the session counts once. */
  async #send(sessionId: string, batch: readonly { frame: string; number: number }[]): Promise<boolean> {
    const { connection, caller } = this.#client.state;
    const subscriptions = subscriptionsOf(this.#client.state);
    const frames = batch.map(({ frame }) => frame);
    const numbers = batch.map(({ number }) => number);
    for (let attempt = 1; ; attempt += 1) {
      try {
        return (
          await this.#session(sessionId).receive({ connection, caller, numbers, frames, subscriptions })
        ).ok;
      } catch (error) {
        if (attempt === 3) throw error;
      }
    }
  }

  /** A client with as many sessions as it may have lets go of those that are over. */
  async #makeRoom(): Promise<void> {
    if (!this.#tooMany() || !this.#client.hasAll()) return;
    const { connection } = this.#client.state;
    await Promise.allSettled(
      this.#client.sessions().map(async (sessionId) => {
        if (await this.#session(sessionId).release(connection)) this.#client.letsGo(sessionId);
      }),
    );
  }

  #tooMany(): RpcError | undefined {
    if (this.#client.sessions().length < LIMITS.sessionsPerConnection) return undefined;
    const message = `A connection has at most ${LIMITS.sessionsPerConnection} sessions`;
    return { code: ErrorCode.invalidRequest, message };
  }

  #session(sessionId: string) {
    return sessionObject(this.#env, this.#client.state.caller.tenant, sessionId);
  }

  #workspace() {
    const { caller, workspace } = this.#client.state;
    return workspaceObject(this.#env, caller.tenant, workspace);
  }
}

/** What the agent has answered to `initialize`, as far as the client may know it. */
function answerOf(answer: string | null, { redacted }: Caller): Record<string, unknown> | null {
  return answer === null ? null : JSON.parse(redacted ? redactedResult(answer) : answer);
}

const NO_SESSION_ID: RpcError = {
  code: ErrorCode.invalidParams,
  message: "params.sessionId must be a string",
};

/** No process could be given a longer one, nor is there a place to keep it. */
const MCP_VALUE_CHARS = 128 * 1024;

function checkMcpServers({ raw, value }: Frame): RpcError | undefined {
  if (!hasMcpServers(value) || longestValue(raw) <= MCP_VALUE_CHARS) return undefined;
  const message = `A value of an MCP server's env or headers exceeds ${MCP_VALUE_CHARS} characters`;
  return { code: ErrorCode.invalidParams, message };
}

/** What may attach a client to another session. */
const OPENING: ReadonlySet<string> = new Set([
  "session/new",
  "session/load",
  "session/resume",
  "session/fork",
]);

function sessionScoped(frame: Frame): boolean {
  return frame.method?.startsWith("session/") === true && frame.method !== "session/list";
}

function checkNewSession(params: unknown): RpcError | undefined {
  return typeof recordOf(params).cwd === "string"
    ? undefined
    : { code: ErrorCode.invalidParams, message: "params.cwd must be a string" };
}
