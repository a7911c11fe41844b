import { runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { WorkspaceState } from "../../../src/workspace/workspace-state.ts";
import { endFaults, failCalls } from "../faults.ts";
import { type Opened, openSession, sessionStub } from "../fixtures.ts";
import { skipped } from "../mortal-session.ts";
import { adminOf, due, kept, make, received, receiver, receiveWebhooks, turn } from "./fixtures.ts";

receiveWebhooks();
afterEach(endFaults);

/** A session with messages that its workspace was too busy to take. */
async function waitingMessages(turns: number): Promise<Opened & { ids: string[] }> {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const opened = await openSession();
  await make(opened.workspace, { events: ["turn.ended"] });
  failCalls("workspace.notify", "overloaded", 1000);
  for (let n = 0; n < turns; n += 1) await turn(opened);
  await due(sessionStub(opened.sessionId), "webhook-messages");
  endFaults();
  const { rows = [] } = await kept(opened.sessionId);
  return { ...opened, ids: rows.map(({ id }) => String(id)) };
}

/** The workspace fails whenever it gets this message. Returns how often it got the message alone. */
function failWith(poison: string, fail: (ctx: DurableObjectState) => never | Promise<never>): () => number {
  const { notify } = WorkspaceState.prototype;
  let calls = 0;
  vi.spyOn(WorkspaceState.prototype, "notify").mockImplementation(function (this: WorkspaceState, messages) {
    if (!messages.some(({ id }) => id === poison)) return notify.call(this, messages);
    if (messages.length === 1) calls += 1;
    return fail((this as unknown as { ctx: DurableObjectState }).ctx) as never;
  });
  return () => calls;
}

const triesOf = (sessionId: string) =>
  runInDurableObject(sessionStub(sessionId), (_, { storage }) => storage.kv.get("webhook-message-tries"));

describe("a webhook message that the workspace cannot take", () => {
  test.each([
    {
      what: "throws",
      // An error of the workspace itself is its answer; a call that ended the object is made three times.
      calls: 3,
      fail: () => {
        throw new Error("not this message");
      },
    },
    {
      what: "ends",
      calls: 9,
      fail: (ctx: DurableObjectState) => {
        ctx.abort("ended by a message");
        return new Promise<never>(() => {});
      },
    },
  ])(
    "is skipped after three tries when the workspace $what, and the others arrive",
    async ({ fail, calls }) => {
      const opened = await waitingMessages(7);
      const { workspace, sessionId, ids } = opened;
      expect(ids).toHaveLength(7);
      const alone = failWith(ids[3] ?? "", fail);
      for (let tries = 0; tries < 6 && (await kept(sessionId)).rows?.length !== 0; tries += 1)
        await due(sessionStub(sessionId), "webhook-messages");
      await received(6);
      expect(receiver.received.map(({ id }) => id).sort()).toEqual(ids.toSpliced(3, 1).sort());
      expect(alone()).toBe(calls);
      expect(await skipped(opened)).toMatchObject([{ detailCode: "webhook_message_skipped" }]);
      expect(await (await adminOf(workspace)).list()).toMatchObject([{ dropped: 1 }]);
      expect(await triesOf(sessionId)).toBeUndefined();
      expect(await kept(sessionId)).toMatchObject({ rows: [], deadlines: 0 });
    },
  );

  test("is taken when its workspace can take it at last", async () => {
    const opened = await waitingMessages(2);
    const { sessionId, ids } = opened;
    failWith(ids[0] ?? "", () => {
      throw new Error("not yet");
    });
    await due(sessionStub(sessionId), "webhook-messages");
    expect(await triesOf(sessionId)).toMatchObject({ id: ids[0] });
    vi.spyOn(WorkspaceState.prototype, "notify").mockRestore();
    await due(sessionStub(sessionId), "webhook-messages");
    await received(2);
    expect(await triesOf(sessionId)).toBeUndefined();
    expect(await skipped(opened)).toEqual([]);
  });
});

describe("a workspace that takes no messages at all", () => {
  test.each(["overloaded", "unsent", "unanswered", "failed"] as const)(
    "does not let one be skipped: %s",
    async (fault) => {
      const opened = await waitingMessages(2);
      const { sessionId } = opened;
      const calls = failCalls("workspace.notify", fault, 1000);
      for (let tries = 0; tries < 4; tries += 1) await due(sessionStub(sessionId), "webhook-messages");
      expect(calls()).toBeGreaterThanOrEqual(4);
      expect((await kept(sessionId)).rows).toHaveLength(2);
      expect(await triesOf(sessionId)).toBeUndefined();
      endFaults();
      await due(sessionStub(sessionId), "webhook-messages");
      await received(2);
      expect(await skipped(opened)).toEqual([]);
    },
  );
});
