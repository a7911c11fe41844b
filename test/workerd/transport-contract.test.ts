import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { connectionStub, prompt, sessionStub, workspaceName } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { type Agent, permissionRequest, updateText } from "./peers/agent.ts";
import { Host } from "./peers/host.ts";
import { TRANSPORTS, type Transport, type TransportClient } from "./peers/transports.ts";

/**
 * The contract of every transport: a reader loses nothing, gets nothing twice, and keeps the order. A reader that has
 * to start over may get the chunks of a message joined, so the cases compare texts, not frames.
 */
describe.each(TRANSPORTS)(
  "[I3] over $name, a reader loses nothing, repeats nothing and keeps the order",
  (transport) => {
    test("while an agent streams, and the answer comes last", async () => {
      const { client, agent, sessionId } = await openSession(transport);
      const id = await client.call("session/prompt", prompt(sessionId));
      const asked = await agent.line();
      stream(agent, 0, 60);
      agent.answer(asked, { stopReason: "end_turn" });
      await client.answerTo(id);
      expect(client.text(sessionId)).toBe(numbered(0, 60));
      expect(client.read.at(-1)).toMatchObject({ id, result: { stopReason: "end_turn" } });
    });

    test("when it loses its connection and comes back while the agent streams", async () => {
      const { client, agent, sessionId } = await openSession(transport);
      stream(agent, 0, 20);
      await client.until(() => client.text(sessionId) !== "");
      await client.drop();
      stream(agent, 20, 40);
      await agent.durable();
      await client.comeBack(sessionId);
      stream(agent, 40, 60);
      await client.until(() => client.text(sessionId).endsWith(numbered(59, 60)));
      expect(client.text(sessionId)).toBe(numbered(0, 60));
    });

    test("when it loads a session and goes on live", async () => {
      const { workspace, agent, sessionId } = await openSession(transport);
      stream(agent, 0, 30);
      await agent.durable();
      const second = await transport.open(workspace);
      await second.follow(sessionId);
      await second.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
      stream(agent, 30, 60);
      await second.until(() => second.text(sessionId).endsWith(numbered(59, 60)));
      expect(second.text(sessionId)).toBe(numbered(0, 60));
    });

    test("when its connection and its session are evicted in between", async () => {
      const { client, agent, sessionId } = await openSession(transport);
      for (const object of [connectionStub(client.connection), sessionStub(sessionId)]) {
        const before = client.text(sessionId).length;
        const from = before === 0 ? 0 : 20;
        stream(agent, from, from + 20);
        await client.until(() => client.text(sessionId).endsWith(numbered(from + 19, from + 20)));
        await evictDurableObject(object);
      }
      stream(agent, 40, 60);
      await client.until(() => client.text(sessionId).endsWith(numbered(59, 60)));
      expect(client.text(sessionId)).toBe(numbered(0, 60));
    });

    test("of two sessions on one connection", async () => {
      const { client, host, agent, sessionId } = await openSession(transport);
      const other = await newSession(client, host);
      for (let n = 0; n < 40; n += 1) {
        stream(agent, n, n + 1);
        stream(other.agent, 100 + n, 101 + n);
      }
      await client.until(() => client.text(sessionId).endsWith(numbered(39, 40)));
      await client.until(() => client.text(other.sessionId).endsWith(numbered(139, 140)));
      expect(client.text(sessionId)).toBe(numbered(0, 40));
      expect(client.text(other.sessionId)).toBe(numbered(100, 140));
    });

    test("when it reads slowly, and delays nobody", async () => {
      setLimits({
        deliverChars: 4000,
        unreadChars: 16_000,
        resumeWindowChars: 16_000,
        resumePageChars: 2000,
      });
      const { workspace, client, agent, sessionId } = await openSession(transport);
      const other = await transport.open(workspace);
      await other.follow(sessionId);
      await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
      client.stopReading();
      const texts = Array.from({ length: 60 }, (_, n) => `${n}${"-".repeat(1000)} `);
      for (const text of texts) agent.update(text);
      await other.until(() => other.text(sessionId).length === texts.join("").length);
      client.startReading();
      await client.until(() => client.text(sessionId).length === texts.join("").length);
      expect(client.text(sessionId)).toBe(texts.join(""));
      expect(other.text(sessionId)).toBe(texts.join(""));
    });

    test("of a frame that is larger than a page", async () => {
      const { client, agent, sessionId } = await openSession(transport);
      const large = "x".repeat(3 * 1024 * 1024);
      agent.items(updateText("before "), updateText(large), updateText(" after"));
      await client.until(() => client.text(sessionId).endsWith(" after"));
      expect(client.text(sessionId)).toBe(`before ${large} after`);
    });

    test("of a permission request, and its answer reaches the agent", async () => {
      const { client, agent, sessionId } = await openSession(transport);
      agent.items(updateText("may I? "), permissionRequest(7));
      const isRequest = ({ method }: Json) => method === "session/request_permission";
      await client.until(() => client.read.some(isRequest));
      expect(client.text(sessionId)).toBe("may I? ");
      const { id } = client.read.find(isRequest) as Json;
      const result = { outcome: { outcome: "selected", optionId: "yes" } };
      await client.send({ jsonrpc: "2.0", id, result }, sessionId);
      expect(await agent.line()).toMatchObject({ id: 7, result });
      expect(client.read.filter(isRequest)).toHaveLength(1);
    });
  },
);

type Opened = { workspace: string; host: Host; client: TransportClient; agent: Agent; sessionId: string };

async function openSession(transport: Transport): Promise<Opened> {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  const client = await transport.open(workspace);
  return { workspace, host, client, ...(await newSession(client, host)) };
}

async function newSession(client: TransportClient, host: Host): Promise<{ agent: Agent; sessionId: string }> {
  const id = await client.call("session/new", { cwd: "/", mcpServers: [] });
  const agent = await host.agent();
  await agent.openSession();
  const { sessionId } = (await client.answerTo(id)).result as { sessionId: string };
  await client.follow(sessionId);
  return { agent, sessionId };
}

function stream(agent: Agent, from: number, to: number): void {
  for (let n = from; n < to; n += 1) agent.update(numbered(n, n + 1));
}

/** The texts of the updates with these numbers. */
function numbered(from: number, to: number): string {
  return Array.from({ length: to - from }, (_, n) => `${from + n} `).join("");
}
