import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { AcpConnection } from "../../../src/connection/acp-connection.ts";
import { Deadlines } from "../../../src/durable/deadlines.ts";
import { SocketRegistrar } from "../../../src/durable/socket-registrar.ts";
import { readLimits } from "../../../src/protocol/limits.ts";
import type { Allowance, SocketRegistration } from "../../../src/protocol/rpc.ts";
import { endFaults, failCalls } from "../faults.ts";
import { connectionStub, socketsOf, subjectStub, workspaceName } from "../fixtures.ts";
import { setLimitsOf } from "../limits.ts";
import { mint } from "../tokens.ts";
import { connect, fakeTime, HOUR } from "./fixtures.ts";

/** The sockets and quotas of one subject, when calls about them come twice, late, or at the same time. */

beforeEach(() => {
  fakeTime();
  // The hour begins in the future, where no alarm comes by itself.
  vi.setSystemTime(Math.ceil(Date.now() / HOUR) * HOUR + 1000);
});
afterEach(() => {
  endFaults();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function someone() {
  const [tenant, subject] = [crypto.randomUUID(), crypto.randomUUID()];
  const registration = (id: string, entry?: string, seconds = 3600): SocketRegistration => ({
    ...{ id, kind: "client", tenant, subject, jti: null, workspace: null },
    ...{ expires: Math.floor(Date.now() / 1000) + seconds, holder: { class: "connection", name: id } },
    ...(entry !== undefined && { entry }),
  });
  const stub = subjectStub(subject, tenant);
  return {
    ...{ tenant, subject, stub, registration, sockets: () => socketsOf(subject, tenant) },
    given: () =>
      runInDurableObject(stub, (_, { storage }) =>
        storage.sql
          .exec<{ given: number }>("SELECT given FROM quota WHERE quota = 'chars'")
          .toArray()
          .map(({ given }) => given),
      ),
    isEmpty: () =>
      runInDurableObject(stub, async (_, { storage }) => {
        const tables = storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name IN ('socket', 'deadline')");
        return tables.toArray().length === 0 && (await storage.getAlarm()) === null;
      }),
  };
}

test("a sign-off that arrives after the socket has entered again ends nothing", async () => {
  const { stub, registration, sockets } = someone();
  await stub.enter(registration("c", "first"));
  await stub.enter(registration("c", "second"));
  await stub.leave("c", undefined, "first");
  expect(await sockets()).toEqual(["c"]);
  await stub.leave("c", undefined, "second");
  expect(await sockets()).toEqual([]);
});

test("a connection names its entry when it signs off", async () => {
  const { tenant, subject, sockets, stub } = someone();
  const { client, connection } = await connect(
    await mint({ tenant, sub: subject, workspaces: [workspaceName()] }),
  );
  const entry = await runInDurableObject(stub, (_, { storage }) =>
    storage.sql.exec<{ entry: string }>("SELECT entry FROM socket WHERE id = ?", connection).one(),
  );
  expect(entry).toEqual({ entry: expect.stringMatching(/./) });
  await runInDurableObject(connectionStub(connection), (_, { storage }) => {
    expect(storage.kv.get(`socket:${connection}`)).toMatchObject({ registration: entry });
  });
  client.socket.close(1000);
  await vi.waitFor(async () => expect(await sockets()).toEqual([]));
});

test("a repeated sign-off pays the allowance back once, and never more than was given", async () => {
  const { stub, registration, given } = someone();
  const entered = await stub.enter(registration("c", "e"), { chars: 100 });
  const { allowance } = entered as { allowance: Allowance };
  await stub.enter(registration("d", "f"), { chars: 100 });
  const [before = 0] = await given();
  await stub.leave("c", allowance, "e");
  await stub.leave("c", allowance, "e");
  expect(await given()).toEqual([before - (allowance.left.chars ?? 0)]);
  await stub.refundAllowance({ ...allowance, left: { chars: 2 * before } });
  expect(await given()).toEqual([0]);
});

test("a socket that comes back while its holder is asked about it keeps its place", async () => {
  const { tenant, subject, stub, registration, sockets } = someone();
  await stub.enter(registration("away", "first"));
  await setLimitsOf(tenant, { socketsPerSubject: 1 }, subject);
  let [isAsked, isAnswered] = [false, false];
  const spy = vi.spyOn(AcpConnection.prototype, "holdsSocket") as unknown as {
    mockImplementation(implementation: () => unknown): void;
  };
  spy.mockImplementation(async () => {
    isAsked = true;
    while (!isAnswered) await scheduler.wait(5);
    return false;
  });
  const other = stub.enter(registration("other", "x"));
  await vi.waitFor(() => expect(isAsked).toBe(true));
  expect(await stub.enter(registration("away", "second"))).toMatchObject({ result: "registered" });
  isAnswered = true;
  expect(await other).toEqual({ result: "too-many" });
  expect(await sockets()).toEqual(["away"]);
});

test("quotas last for their hour, although the last token has expired, and are then deleted", async () => {
  const { stub, registration, given, isEmpty } = someone();
  await stub.enter(registration("c", "e", 60), { chars: 100 });
  const before = await given();
  vi.setSystemTime(Date.now() + HOUR / 2);
  await runDurableObjectAlarm(stub);
  expect(await given()).toEqual(before);
  vi.setSystemTime(Date.now() + HOUR);
  await runDurableObjectAlarm(stub);
  expect(await isEmpty()).toBe(true);
});

test.each(["takeSessionQuota", "grantAllowance"] as const)(
  "%s of a subject without tokens leaves nothing after the hour",
  async (method) => {
    const { stub, isEmpty } = someone();
    await (method === "takeSessionQuota" ? stub.takeSessionQuota() : stub.grantAllowance({ chars: 1 }));
    expect(await isEmpty()).toBe(false);
    vi.setSystemTime(Date.now() + HOUR);
    await runDurableObjectAlarm(stub);
    expect(await isEmpty()).toBe(true);
  },
);

test("a registration that fails does not put off the renewal of another socket", async () => {
  const { registration } = someone();
  vi.spyOn(console, "error").mockImplementation(() => {});
  failCalls("subject.enter", "failed");
  const next = await runInDurableObject(connectionStub(crypto.randomUUID()), async (_, ctx) => {
    const deadlines = new Deadlines<"registration">(ctx.storage);
    const limits = readLimits(undefined);
    const registrar = new SocketRegistrar({ ctx, env, limits, deadlines, isOpen: () => true, end: () => {} });
    const store = (id: string, renewAt: number) =>
      ctx.storage.kv.put(`socket:${id}`, { registration: registration(id), leaseUntil: 0, renewAt });
    store("due", Date.now());
    store("soon", Date.now() + 100);
    await registrar.retry();
    const { at } = ctx.storage.sql.exec<{ at: number }>("SELECT at FROM deadline").one();
    await ctx.storage.deleteAll();
    return at;
  });
  expect(next).toBe(Date.now() + 100);
});
