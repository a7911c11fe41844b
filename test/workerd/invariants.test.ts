import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { eventsText, openSession, prompt, sessionStub, texts } from "./fixtures.ts";
import { updateText } from "./peers/agent.ts";

/** Ends the object of a session at once, which loses everything it has not stored. */
async function crash(sessionId: string): Promise<void> {
  await runInDurableObject(sessionStub(sessionId), (_, state) => state.abort()).catch(() => {});
}

describe("the log of a session", () => {
  test("[I1] has a frame of the agent before a client sees it", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    agent.update("seen by the client");
    expect(texts([await client.takeJson()])).toEqual(["seen by the client"]);
    await crash(sessionId);
    expect(await eventsText(workspace, sessionId)).toContain("seen by the client");
  });

  test("[I1] has a prompt before the agent sees it", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    client.call("session/prompt", prompt(sessionId, "seen by the agent"));
    expect(await agent.rawLine()).toContain("seen by the agent");
    await crash(sessionId);
    expect(await eventsText(workspace, sessionId)).toContain("seen by the agent");
  });

  test("[I8] stores frames that arrive together in one row", async () => {
    const { agent, sessionId } = await openSession();
    const rows = () =>
      runInDurableObject(
        sessionStub(sessionId),
        (_, state) => state.storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM log").one().n,
      );
    const before = await rows();
    agent.items(...Array.from({ length: 200 }, (_, i) => updateText(String(i))));
    await agent.durable();
    expect(await rows()).toBe(before + 1);
  });
});
