import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { type Opened, openSession, prompt, sessionStub, texts } from "./fixtures.ts";
import { mortalSession, skipped, viewOf } from "./mortal-session.ts";
import { updateText } from "./peers/agent.ts";

/** Does what a host does: sends what is not acknowledged, and dials again when the socket is lost. Returns the losses. */
async function insist({ agent }: Opened, items: string[]): Promise<number> {
  agent.items(...items);
  for (let losses = 0; losses < 30; losses += 1) {
    const end = await Promise.race([agent.durable(), agent.link.closed]);
    if (end === undefined) return losses;
    await agent.reconnect();
    agent.sendFrom(agent.acknowledged + 1);
  }
  throw new Error("The session does not take the items");
}

describe("an item that ends the session's object", () => {
  test("is skipped after few tries, and the log and the view say so", async () => {
    const opened = await mortalSession();
    expect(await viewOf(opened)).toMatchObject({ lastError: null });
    const losses = await insist(opened, [updateText("poison"), updateText("after")]);
    expect(losses).toBeGreaterThan(0);
    expect(losses).toBeLessThanOrEqual(4);
    const notice = JSON.stringify(await opened.client.takeJson());
    expect(notice).toContain('"acp-edge/event":"agent.violation"');
    expect(texts([await opened.client.takeJson()])).toEqual(["after"]);
    expect(await skipped(opened)).toHaveLength(1);
    expect(await viewOf(opened)).toMatchObject({ lastError: expect.stringContaining("skipped") });
  });

  test("takes none of the items around it along", async () => {
    const opened = await mortalSession();
    const words = Array.from({ length: 40 }, (_, i) => (i === 27 ? "poison" : String(i)));
    const losses = await insist(
      opened,
      words.map((word) => updateText(word)),
    );
    expect(losses).toBeGreaterThan(0);
    expect(losses).toBeLessThanOrEqual(12);
    const received: string[] = [];
    while (received.length < words.length - 1) received.push(...texts([await opened.client.takeJson()]));
    expect(received).toEqual(words.filter((word) => word !== "poison"));
    expect(await skipped(opened)).toHaveLength(1);
  });

  test("ends its turn with an error when it answers the prompt", async () => {
    const opened = await mortalSession();
    const { client, agent, sessionId } = opened;
    const turn = client.call("session/prompt", prompt(sessionId, "go"));
    const { id } = await agent.line();
    const result = { stopReason: "end_turn", _meta: { text: "poison" } };
    await insist(opened, [JSON.stringify({ jsonrpc: "2.0", id, result })]);
    expect((await client.until(turn)).response.error).toMatchObject({ code: -32603 });
    expect(await viewOf(opened)).toMatchObject({ turn: null });
  });
});

describe("an item that was in hand when the object ended for another reason", () => {
  test("is taken", async () => {
    const opened = await openSession();
    const { agent, client, sessionId } = opened;
    for (let i = 0; i < 8; i += 1) {
      // The host has sent the item, and the object ends before it is acknowledged.
      await runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
        storage.kv.put("item-tries", { run: agent.run, item: 5 + i, count: 1, tries: 2 });
      });
      await agent.reconnect();
      agent.update(String(i));
      await agent.durable();
      expect(texts([await client.takeJson()])).toEqual([String(i)]);
    }
    expect(await skipped(opened)).toEqual([]);
    const left = await runInDurableObject(sessionStub(sessionId), (_, { storage }) =>
      storage.kv.get("item-tries"),
    );
    expect(left).toBeUndefined();
  });
});
