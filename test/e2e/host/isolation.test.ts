import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { descendants } from "../../../src/cli/local/process-tree.ts";
import { findProcess } from "../../../src/host/os/linux-processes.ts";
import type { FakeGateway, FakeSession } from "./fake-gateway.ts";
import { FIXTURE, fixture, isAlive, startHost } from "./harness.ts";

const pidOf = (session: FakeSession) => session.events<{ pid: number }>("started")[0]?.pid as number;

/** Fixture agents among the descendants of this process. */
const agents = () => descendants(process.pid).filter(({ command }) => command.includes(FIXTURE));

async function ready(gateway: FakeGateway, id: string): Promise<FakeSession> {
  const session = await gateway.open(id);
  await gateway.until(() => session.frames.length);
  return session;
}

/** Makes an agent stream, and checks that everything arrived in order. */
async function streams(gateway: FakeGateway, session: FakeSession): Promise<void> {
  const count = 2000;
  session.tell("stream", { count, size: 50 });
  await gateway.until(() => session.frames.find((frame) => frame.streamed));
  const numbers = session.frames.flatMap(({ method, n }) => (method === "update" ? [n] : []));
  expect(numbers).toEqual(Array.from({ length: count }, (_, n) => n));
}

/** Makes an agent send a request, as a raw line. */
function request(session: FakeSession, frame: object): void {
  session.tell("write", { chunks: [Buffer.from(`${JSON.stringify(frame)}\n`).toString("base64")] });
}

describe("an agent", () => {
  const harms: Record<string, (session: FakeSession) => void> = {
    "it prints noise without end": (session) => session.tell("flood", { of: "stdout" }),
    "it complains without end": (session) => session.tell("flood", { of: "stderr" }),
    "it asks for files without end": (session) => session.tell("flood", { of: "requests" }),
    "it streams without end to a session that does not keep up": (session) => {
      session.acking = false;
      session.tell("flood", { of: "frames" });
    },
    "its terminals write without end": (session) => {
      for (let id = 1; id <= 3; id++)
        request(session, { id, method: "terminal/create", params: { command: "yes flood" } });
    },
    "it hangs": (session) => session.tell("block", { ms: 600_000 }),
    "it dies": (session) => session.tell("exit", { code: 1 }),
  };

  test.each(Object.keys(harms))("harms only its own session when %s", async (harm) => {
    const { gateway } = await startHost();
    const bad = await ready(gateway, "bad");
    const others = await Promise.all(["a", "b", "c"].map((id) => ready(gateway, id)));
    harms[harm]?.(bad);
    await Promise.all(others.map((session) => streams(gateway, session)));
    // A later session is not affected either.
    await streams(gateway, await ready(gateway, "later"));
    bad.ack();
    bad.stop();
    await gateway.until(() => bad.exit);
    expect(isAlive(pidOf(bad))).toBe(false);
    expect(others.map(pidOf).every(isAlive)).toBe(true);
  });
});

describe("an agent process", () => {
  test("has its own process group and none of the host's sockets", async () => {
    const { gateway } = await startHost();
    const first = await ready(gateway, "a");
    const second = await ready(gateway, "b");
    for (const session of [first, second]) expect(findProcess(pidOf(session))?.group).toBe(pidOf(session));
    second.tell("descriptors");
    const { descriptors } = await gateway.until(() => second.frames.find((frame) => frame.descriptors));
    expect((descriptors as string[]).filter((link) => link.startsWith("socket:"))).toEqual([]);
  });

  test("is ended with a reason over its memory limit", async () => {
    const agentLimits = { memoryBytes: 250 * 1024 * 1024 };
    const { gateway } = await startHost({ agentLimits, timing: { usageEveryMs: 50 } });
    const other = await ready(gateway, "other");
    const session = await ready(gateway, "s");
    session.tell("grow", { megabytes: 300 });
    await gateway.until(() => session.exit);
    expect(session.exit).toMatchObject({
      signal: "SIGKILL",
      error: expect.stringMatching(/^the agent exceeded its memory limit: \d+ MB, 250 MB are allowed$/),
    });
    await streams(gateway, other);
  });

  test("is ended with all its processes over its process limit", async () => {
    const { gateway } = await startHost({ agentLimits: { processes: 10 }, timing: { usageEveryMs: 50 } });
    const session = await ready(gateway, "s");
    session.tell("multiply", { count: 9 });
    await gateway.until(() => session.frames.find((frame) => frame.multiplied));
    // Processes in its terminals count too.
    request(session, { id: 1, method: "terminal/create", params: { command: "sleep 60 & sleep 60 & wait" } });
    await gateway.until(() => session.exit);
    expect(session.exit?.error).toMatch(
      /^the agent exceeded its process limit: \d+ processes, 10 are allowed$/,
    );
    await expect
      .poll(() => descendants(process.pid).filter(({ command }) => command === "sleep 60"))
      .toEqual([]);
  });
});

describe("a host with a maximum of agents", () => {
  test("refuses one more, and accepts one again when there is room", async () => {
    const { gateway } = await startHost({ maxAgents: 2 });
    expect((await gateway.until(() => gateway.said("hello")[0])).maxAgents).toBe(2);
    const first = await ready(gateway, "a");
    await ready(gateway, "b");
    const third = await gateway.open("c");
    await gateway.until(() => third.exit);
    expect(third.exit?.error).toContain("this host already runs 2 agents, which is its limit");
    first.stop();
    await gateway.until(() => first.exit);
    await streams(gateway, await ready(gateway, "d"));
  });

  test("counts the warm process, which is evicted and comes back", async () => {
    const { gateway } = await startHost({
      maxAgents: 1,
      agents: [{ ...fixture("fixture"), default: true }, fixture("other")],
    });
    await gateway.until(() => gateway.said("agent").length);
    const [spare] = agents();
    const session = await gateway.open("a", "other");
    await gateway.until(() => session.frames.length);
    await expect.poll(() => agents().map(({ pid }) => pid)).toEqual([pidOf(session)]);
    expect(isAlive(spare?.pid as number)).toBe(false);
    session.stop();
    await gateway.until(() => session.exit);
    await expect.poll(() => agents().length, { timeout: 5000 }).toBe(1);
    await streams(gateway, await ready(gateway, "b"));
  });
});

test("a closed host has ended all its processes", async () => {
  const stubborn = fixture("fixture", "ignores-sigterm");
  const { gateway, host, root } = await startHost({ agents: [{ ...stubborn, default: true }] });
  const session = await ready(gateway, "a");
  const command = "trap '' TERM; echo $$ > tmp; mv tmp pid; while :; do sleep 1; done";
  request(session, { id: 1, method: "terminal/create", params: { command } });
  const terminal = Number(await vi.waitFor(() => readFileSync(join(root, "pid"), "utf8")));
  const created = await gateway.until(() => session.events<string>("answer")[0]);
  request(session, { id: 2, method: "terminal/release", params: JSON.parse(created).result });
  await gateway.until(() => session.events("answer").length === 2);
  // The session's agent and the next warm process.
  await expect.poll(() => agents().length, { timeout: 5000 }).toBe(2);
  await host.close();
  await expect.poll(() => agents()).toEqual([]);
  await expect.poll(() => isAlive(terminal)).toBe(false);
});
