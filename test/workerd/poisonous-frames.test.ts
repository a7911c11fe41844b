import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { type Opened, prompt, sessionStub } from "./fixtures.ts";
import { mortalSession, skipped, viewOf } from "./mortal-session.ts";

function note(client: Opened["client"], sessionId: string, word: string): void {
  client.notify("_x/note", { sessionId, word });
}

/** The host comes back for good when the frame is skipped: each object that ended took its socket along. */
async function comeBack(opened: Opened): Promise<void> {
  await opened.agent.link.closed;
  await vi.waitUntil(async () => (await skipped(opened).catch(() => [])).length > 0, { timeout: 30_000 });
  await opened.agent.reconnect();
}

function tries({ sessionId }: Opened): Promise<unknown> {
  return runInDurableObject(sessionStub(sessionId), (_, { storage }) => storage.kv.get("frame-tries"));
}

describe("a client's frame that ends the session's object", () => {
  test("is answered with an error after few tries, and the frames behind it go on", async () => {
    const opened = await mortalSession();
    const { client, agent, sessionId } = opened;
    expect(await viewOf(opened)).toMatchObject({ lastError: null });
    const poison = client.call("session/prompt", prompt(sessionId, "poison"));
    const after = client.call("session/prompt", prompt(sessionId, "after"));
    expect((await client.until(poison)).response.error).toMatchObject({ code: -32603 });
    await comeBack(opened);
    const { id, params } = await agent.line();
    expect(JSON.stringify(params)).toContain("after");
    agent.items(JSON.stringify({ jsonrpc: "2.0", id, result: { stopReason: "end_turn" } }));
    expect((await client.until(after)).response.result).toMatchObject({ stopReason: "end_turn" });
    expect(await skipped(opened)).toMatchObject([{ detailCode: "frame_skipped" }]);
    expect(await viewOf(opened)).toMatchObject({ lastError: expect.stringContaining("skipped") });
    expect(await tries(opened)).toBeUndefined();
  });

  test("takes none of the frames around it along", async () => {
    const opened = await mortalSession();
    const { client, agent, sessionId } = opened;
    const words = Array.from({ length: 20 }, (_, i) => (i === 13 ? "poison" : String(i)));
    for (const word of words) note(client, sessionId, word);
    client.call("session/prompt", prompt(sessionId, "last"));
    await comeBack(opened);
    const received: unknown[] = [];
    while (received.length < words.length) {
      const { method, params } = await agent.line();
      received.push(method === "_x/note" ? params?.word : method);
    }
    expect(received).toEqual([...words.filter((word) => word !== "poison"), "session/prompt"]);
    expect(await skipped(opened)).toHaveLength(1);
  });

  test("gives the agent an error in its place when it answers a request", async () => {
    const opened = await mortalSession();
    const { client, agent } = opened;
    const params = { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options: [] };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/request_permission", params }));
    const { id } = await client.takeJson();
    const outcome = { outcome: "selected", optionId: "poison" };
    client.send(JSON.stringify({ jsonrpc: "2.0", id, result: { outcome } }));
    await comeBack(opened);
    expect(await agent.line()).toMatchObject({ id: 7, error: { code: -32603 } });
  });
});
