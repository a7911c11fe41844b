import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { makeQuestionLink } from "../../../src/auth/answer-link.ts";
import { events, eventsText, openSession, send } from "../fixtures.ts";
import { questionRequest } from "../peers/agent.ts";
import { ALL_OF_A_CLIENT, mint } from "../tokens.ts";
import { make, received, receiver, receiveWebhooks } from "../webhooks/fixtures.ts";
import { asking, follow, JSON_PLEASE, statusOf } from "./fixtures.ts";

receiveWebhooks();

const VISIT = JSON.stringify({
  jsonrpc: "2.0",
  id: "v",
  method: "elicitation/create",
  params: {
    ...{ sessionId: "agent-session", mode: "url", message: "Log in\u202e", elicitationId: "e" },
    url: 'https://login.test/?a="><script>',
  },
});

/** A session whose agent waits for an answer, and a link to its question. */
async function linked(request = questionRequest("q")) {
  const opened = await openSession();
  opened.agent.items(request);
  const id = (await opened.client.takeJson()).id as string;
  const owner = await mint({ workspaces: [opened.workspace], scopes: ALL_OF_A_CLIENT, sub: "owner" });
  const made = await send("POST", `/api/questions/${id}/links`, owner, {});
  expect(made.status).toBe(201);
  const { url, question } = (await made.json()) as { url: string; question: string };
  expect(question).toBe(id);
  return { ...opened, id, url };
}

function post(url: string, fields: [string, string][]): Promise<Response> {
  return follow(
    url,
    "POST",
    { "Content-Type": "application/x-www-form-urlencoded" },
    `${new URLSearchParams(fields)}`,
  );
}

describe("a link to a question", () => {
  test("shows the form, and looking changes nothing", async () => {
    const { url, id } = await linked();
    const response = await follow(url);
    expect(response.status).toBe(200);
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    expect(response.headers.get("Content-Security-Policy")).toContain("default-src 'none'");
    const page = await response.text();
    for (const part of [
      "Who are you?",
      '<label for="f0"><bdi>Your name</bdi> *</label>',
      '<select id="f1" name="1" ><option value=""></option><option value="0" >Red</option>',
      'type="number"',
      'min="0" max="9"',
      '<input type="checkbox" name="3" value="on" checked>',
      '<input type="checkbox" name="4" value="1" >',
      "owner",
    ])
      expect(page).toContain(part);
    expect(page).not.toContain("<script");
    expect(await statusOf(url, "HEAD")).toBe(200);
    const json = await follow(url, "GET", JSON_PLEASE);
    expect(await json.json()).toMatchObject({ id, mode: "form", message: "Who are you?", url: null });
    expect(await statusOf(url)).toBe(200);
  });

  test("sends the filled in form once, concealed in the log", async () => {
    const { url, agent, client, id, workspace, sessionId } = await linked();
    const wrong = await post(url, [
      ["action", "accept"],
      ["2", "12"],
    ]);
    expect(wrong.status).toBe(400);
    const page = await wrong.text();
    expect(page).toContain("is required");
    expect(page).toContain("must be at most 9");
    expect(page).toContain('value="12"');
    expect(page).toContain('<input type="checkbox" name="3" value="on" >');
    const answered = await post(url, [
      ["0", "Ada <b>\r\nLovelace"],
      ["1", "1"],
      ["2", "3"],
      ["4", "0"],
      ["4", "1"],
      ["action", "accept"],
    ]);
    expect(answered.status).toBe(200);
    expect(await answered.text()).toContain("Answered");
    const content = { name: "Ada <b>\nLovelace", colour: "blue", times: 3, really: false, tags: ["a", "b"] };
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "q", result: { action: "accept", content } });
    expect(await client.takeJson()).toMatchObject({ method: "$/cancel_request", params: { requestId: id } });
    for (const method of ["GET", "POST"]) expect(await statusOf(url, method)).toBe(410);
    expect(await eventsText(workspace, sessionId)).not.toContain("Lovelace");
    const [fact] = (await events(workspace, sessionId)).filter(({ kind }) => kind === "question.responded");
    expect(fact?.payload).toMatchObject({ action: "accept", by: "link", subject: "owner" });
  });

  test("declines, also for programs, and does nothing without an action", async () => {
    const { url, agent, id } = await linked();
    expect((await post(url, [["0", "Ada"]])).status).toBe(400);
    const headers = { ...JSON_PLEASE, "Content-Type": "application/json" };
    const bad = await follow(url, "POST", headers, '{"action":"accept","content":{"x":1}}');
    expect(await bad.json()).toMatchObject({ error: { code: "bad_answer" } });
    const declined = await follow(url, "POST", headers, '{"action":"decline"}');
    expect(await declined.json()).toEqual({ id, action: "decline" });
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "q", result: { action: "decline" } });
  });

  test("shows an address as it is, and accepts it without content", async () => {
    const { url, agent } = await linked(VISIT);
    const page = await (await follow(url)).text();
    expect(page).toContain('href="https://login.test/?a=&quot;&gt;&lt;script&gt;"');
    expect(page).toContain("Log in⟨U+202E⟩");
    expect((await post(url, [["action", "accept"]])).status).toBe(200);
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "v", result: { action: "accept" } });
  });

  test("says so when the agent needs no answer any more", async () => {
    const { url, agent, client } = await linked();
    agent.items('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"q"}}');
    await client.takeJson();
    const response = await follow(url);
    expect([response.status, await response.text()]).toEqual([410, expect.stringContaining("closed")]);
  });

  test("answers no permission request", async () => {
    const { workspace, sessionId: session, permission } = await asking();
    const maker = { subject: "owner", jti: null, workspace: null };
    const seq = Number(permission.split(":")[1]);
    const request = { tenant: "acme", workspace, session, seq, by: "owner", maker, id: crypto.randomUUID() };
    const url = await makeQuestionLink(env, "https://edge.test", { ...request, expires: 2e9 });
    expect(await statusOf(url as string)).toBe(410);
    expect((await post(url as string, [["action", "accept"]])).status).toBe(410);
  });
});

test("a webhook hears of a question, with a link that answers it", async () => {
  const opened = await openSession();
  const { workspace, sessionId, agent, client } = opened;
  await make(workspace, { events: ["question.pending"], links: true });
  agent.items(questionRequest("q"));
  const { id } = await client.takeJson();
  await received(1);
  const [message] = receiver.messages("question.pending");
  expect(message).toMatchObject({
    data: {
      ...{ workspace, sessionId, sessionTitle: null, requestedAt: expect.any(String) },
      question: {
        id,
        mode: "form",
        message: "Who are you?",
        requestedSchema: { required: ["name"] },
        url: null,
      },
    },
  });
  const { link } = (message?.data.question ?? {}) as { link: string };
  expect(
    (
      await post(link, [
        ["0", "Ada"],
        ["action", "accept"],
      ])
    ).status,
  ).toBe(200);
  await vi.waitFor(async () =>
    expect(await agent.line()).toMatchObject({ id: "q", result: { action: "accept" } }),
  );
});
