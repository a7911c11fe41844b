import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { AcpSession } from "../../../src/session/acp-session.ts";
import { type Opened, openSession, sessionStub, workspaceStub } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { kinds, set } from "./fixtures.ts";

type Row = { session: string; kind: string; tries: number; next: number };

beforeEach(() => {
  vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
});

const REJECT = { policy: { default: "reject" } };

/** Two sessions of a workspace. `other` is the second. */
async function twoSessions(): Promise<Opened & { other: string }> {
  const opened = await openSession();
  const opening = opened.client.newSession();
  await (await opened.host.agent()).openSession();
  return { ...opened, other: await opening };
}

/** Lets a session fail whenever it gets a policy. Returns how often it got one. */
function failPolicies(
  sessionId: string,
  fail: (ctx: DurableObjectState) => void | Promise<void>,
): () => number {
  const failing = sessionStub(sessionId).id;
  const { setPolicy } = AcpSession.prototype;
  let calls = 0;
  vi.spyOn(AcpSession.prototype, "setPolicy").mockImplementation(function (this: AcpSession, policy) {
    const { ctx } = this as unknown as { ctx: DurableObjectState };
    if (!ctx.id.equals(failing)) return setPolicy.call(this, policy);
    calls += 1;
    return fail(ctx) as never;
  });
  return () => calls;
}

const refuse = () => {
  throw new Error("not this session");
};

const end = (ctx: DurableObjectState) => {
  ctx.abort("ended by a message");
  return new Promise<void>(() => {});
};

const rowsOf = (workspace: string) =>
  runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
    storage.sql.exec<Row>("SELECT session, kind, tries, next FROM session_message").toArray(),
  );

/** Makes the waiting messages due and runs the alarm. */
const due = (workspace: string) =>
  runInDurableObject(workspaceStub(workspace), async (instance, { storage }) => {
    storage.sql.exec("UPDATE session_message SET next = 0");
    storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = 'session-messages'");
    await instance.alarm();
  });

describe("a session that fails with a message of its workspace", () => {
  test.each([
    { how: "throws", fail: refuse, callsPerTry: 1 },
    { how: "ends", fail: end, callsPerTry: 3 },
  ])(
    "is called again after a pause only, and holds up no other session: it $how",
    async ({ fail, callsPerTry }) => {
      // The workspace's own alarm does not come during the test.
      setLimits({ hostStatusRetryMs: 60_000 });
      const { workspace, sessionId, other } = await twoSessions();
      const calls = failPolicies(sessionId, fail);
      await set(workspace, REJECT);
      expect(await kinds(workspace, other)).toContain("permission.policy");
      for (const name of ["a", "b", "c"]) await set(workspace, { name });
      expect(calls()).toBe(callsPerTry);
      expect(await rowsOf(workspace)).toMatchObject([{ session: sessionId, kind: "policy", tries: 1 }]);
      // A newer message is tried at once.
      await set(workspace, { policy: { default: "ask" } });
      expect(calls()).toBe(2 * callsPerTry);
      expect(await rowsOf(workspace)).toMatchObject([{ session: sessionId, tries: 2 }]);
    },
  );

  test("keeps its message, and the pauses grow", async () => {
    const { workspace, sessionId } = await twoSessions();
    const calls = failPolicies(sessionId, refuse);
    await set(workspace, REJECT);
    for (let round = 0; round < 12; round += 1) await due(workspace);
    const [row] = await rowsOf(workspace);
    expect(row).toMatchObject({ session: sessionId, kind: "policy" });
    expect(row?.tries).toBe(calls());
    expect(row?.tries).toBeGreaterThanOrEqual(13);
    expect((row?.next ?? 0) - Date.now()).toBeGreaterThan(60_000);
    const deadline = await runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
      storage.sql.exec("SELECT at, failures FROM deadline WHERE name = 'session-messages'").one(),
    );
    expect(deadline).toEqual({ at: row?.next, failures: 0 });
    vi.restoreAllMocks();
    await due(workspace);
    expect(await kinds(workspace, sessionId)).toContain("permission.policy");
    expect(await rowsOf(workspace)).toEqual([]);
  });

  test("does not hold up its workspace when it is silent", async () => {
    setLimits({ callMs: 200 });
    const { workspace, sessionId, other } = await twoSessions();
    failPolicies(sessionId, () => new Promise(() => {}));
    await set(workspace, REJECT);
    expect(await kinds(workspace, other)).toContain("permission.policy");
    expect(await rowsOf(workspace)).toMatchObject([{ session: sessionId, tries: 1 }]);
  });
});
