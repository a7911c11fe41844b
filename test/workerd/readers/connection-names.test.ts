import { evictDurableObject } from "cloudflare:test";
import { unpackTar } from "modern-tar";
import { describe, expect, test } from "vitest";
import { type Opened, openSession, prompt, sessionStub } from "../fixtures.ts";
import { permissionRequest } from "../peers/agent.ts";
import { mint } from "../tokens.ts";
import { filesOf } from "../transfer/fixtures.ts";
import { ask, connect, linkTo } from "./fixtures.ts";

type Scene = Opened & { connections: string[]; bearer: string };

/** A session whose log names connections in every way: routes, attachments, answers, logins, the end. */
async function scene(): Promise<Scene> {
  const opened = await openSession();
  const { client, agent, sessionId, workspace } = opened;
  const bearer = await mint({ workspaces: [workspace], sub: "colleague" });
  const second = await connect(bearer, `?workspace=${workspace}`);
  const attach = { sessionId, cwd: "/", mcpServers: [] };
  const first = crypto.randomUUID();
  const _meta = { "acp-edge/after": 1, "acp-edge/as": first };
  await second.client.request("session/resume", { ...attach, _meta });
  const key = { _meta: { "acp-edge/idempotencyKey": "k" } };
  client.call("session/prompt", { ...prompt(sessionId), ...key });
  const asked = await agent.line();
  second.client.call("session/prompt", { ...prompt(sessionId), ...key });
  agent.items(permissionRequest(77));
  let request = await second.client.takeJson();
  while (request.method !== "session/request_permission") request = await second.client.takeJson();
  const result = { outcome: { outcome: "selected", optionId: "yes" } };
  second.client.send(JSON.stringify({ jsonrpc: "2.0", id: request.id, result }));
  await agent.line();
  agent.answer(asked, { stopReason: "end_turn" });
  await agent.durable();
  const end = { _meta: { "acp-edge/closeMeans": "end" } };
  const close = await second.client.request("session/close", { sessionId, ...end });
  expect(close.response).toHaveProperty("result");
  const view = await (await ask("GET", `/api/sessions/${sessionId}`, bearer)).json();
  const { clients } = view as { clients: { connection: string }[] };
  const connections = [first, ...clients.map(({ connection }) => connection)];
  expect(connections).toContain(second.connection);
  return { ...opened, connections, bearer };
}

/** Everything that a caller can read of a session, by the way it came. */
async function reads({ sessionId }: Opened, bearer: string): Promise<Record<string, string>> {
  const get = async (path: string, headers = {}) => {
    const response = await ask("GET", `/api/sessions/${sessionId}${path}`, bearer, headers);
    expect(response.status, path).toBe(200);
    return response;
  };
  const view = await (await get("")).text();
  const { lastSeq } = (JSON.parse(view) as { log: { lastSeq: number } }).log;
  const stream = await get("/events", { Accept: "text/event-stream" });
  const reader = (stream.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let live = "";
  while (!(live.includes(`id: ${lastSeq}\n`) && live.endsWith("\n\n")))
    live += decoder.decode((await reader.read()).value, { stream: true });
  await reader.cancel();
  const tar = new Uint8Array(await (await get("/export?format=acpx")).arrayBuffer());
  return {
    view,
    events: await (await get("/events")).text(),
    live,
    archive: JSON.stringify([...filesOf(await unpackTar(tar, { strict: true }))]),
    ndjson: await (await get("/export?format=ndjson")).text(),
    markdown: await (await get("/export?format=markdown")).text(),
    list: await (await ask("GET", "/api/sessions", bearer)).text(),
    permissions: await (await ask("GET", "/api/permissions", bearer)).text(),
  };
}

describe("the bearer of a link", () => {
  test.each([
    ["a plain link", false],
    ["a redacted link", true],
  ])("sees no id of a connection by %s, and the same names everywhere", async (_, redact) => {
    const opened = await scene();
    const { sessionId, workspace, connections, bearer } = opened;
    const token = await linkTo(workspace, sessionId, redact);
    const own = await reads(opened, bearer);
    const log = own.events ?? "";
    // The scene has an event for every member that may name a connection.
    for (const member of ["connection", "to", "also", "by", "acp-edge/as"])
      expect(
        connections.some((id) => log.includes(`"${member}":"${id}"`) || log.includes(`["${id}"]`)),
        member,
      ).toBe(true);
    const seen = await reads(opened, token);
    for (const [where, text] of Object.entries(seen))
      for (const id of connections) expect(text, where).not.toContain(id);
    const { clients } = JSON.parse(seen.view as string) as { clients: { connection: string }[] };
    expect(clients).toHaveLength(2);
    for (const { connection } of clients) {
      expect(connection).toMatch(/^client-[0-9a-f]{16}$/);
      for (const where of ["events", "live", "ndjson", "archive"])
        expect(seen[where], where).toContain(connection);
    }
    await evictDurableObject(sessionStub(sessionId));
    expect((await reads(opened, token)).events).toBe(seen.events);
    const { client, connection } = await connect(token);
    const loaded = await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    const frames = JSON.stringify(loaded);
    for (const id of [...connections, connection]) expect(frames).not.toContain(id);
  });
});
