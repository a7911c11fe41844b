import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { OfferedAgent } from "../../../src/host/agent/offered-agents.ts";
import type { FakeSession } from "./fake-gateway.ts";
import { fixture, startHost } from "./harness.ts";

const asDefault = (agent: OfferedAgent): OfferedAgent => ({ ...agent, default: true });
const pidOf = (session: FakeSession) => session.events<{ pid: number }>("started")[0]?.pid;

describe("a warm process", () => {
  test("reports its agent when it is ready, and becomes the next session's run", async () => {
    const { gateway } = await startHost({ agents: [asDefault(fixture("fixture"))] });
    await gateway.until(() => gateway.control.find(({ t }) => t === "agent"));
    const session = await gateway.open("s");
    await gateway.until(() => session.items.length >= 3);
    expect(session.messages[0]).toEqual({ first: 1, count: 3 });
    const next = await gateway.open("t");
    await gateway.until(() => next.items.length >= 3);
    expect(pidOf(next)).not.toBe(pidOf(session));
    expect(gateway.control.filter(({ t }) => t === "agent")).toHaveLength(1);
  });

  test("may be taken before it is ready", async () => {
    const { gateway } = await startHost({ agents: [asDefault(fixture("fixture"))] });
    const session = await gateway.open("s");
    session.tell("hello");
    await gateway.until(() => session.frames.find((frame) => frame.echo));
  });

  test("is not used for another agent", async () => {
    const { gateway } = await startHost({
      agents: [asDefault(fixture("fixture")), fixture("other", "version-2")],
    });
    const session = await gateway.open("s", "other");
    await gateway.until(() => session.exit);
    expect(session.exit?.error).toContain("version 2");
  });

  test("is reported and not retried if it cannot start", async () => {
    const { gateway, log } = await startHost({ agents: [asDefault(fixture("fixture", "exits"))] });
    const failed = await gateway.until(() => gateway.control.find((message) => message.t === "agent_failed"));
    expect(failed).toEqual({
      t: "agent_failed",
      id: "fixture",
      error: "the agent ended before it answered initialize: cannot go on",
    });
    const session = await gateway.open("s");
    await gateway.until(() => session.exit);
    expect(log.filter((line) => line.startsWith("agent fixture failed"))).toHaveLength(2);
  });

  test("is replaced when it dies", async () => {
    const { root } = await startHost({ agents: [asDefault(fixture("fixture", "crashes-later", "10"))] });
    await expect.poll(() => readdirSync(root).length, { timeout: 5000 }).toBeGreaterThan(2);
  });

  test("is started for another agent on request, and waits for its session", async () => {
    const { gateway } = await startHost({ agents: [fixture("fixture"), fixture("other")] });
    await gateway.until(() => gateway.controlSocket);
    gateway.controlSocket?.send('{"t":"warm","agent":"other"}');
    await gateway.until(() => gateway.control.find((message) => message.t === "agent"));
    const session = await gateway.open("s", "other");
    await gateway.until(() => session.items.length >= 3);
    // Everything arrives immediately, because the process had started before.
    expect(session.messages[0]).toEqual({ first: 1, count: 3 });
  });

  test("is kept for the most recently requested agents", async () => {
    const started = (id: string) => fixture(id, "crashes-never", id);
    const { gateway } = await startHost({ agents: ["a", "b", "c"].map(started) });
    await gateway.until(() => gateway.controlSocket);
    for (const id of ["a", "b", "c"]) {
      gateway.controlSocket?.send(JSON.stringify({ t: "warm", agent: id }));
      await gateway.until(() =>
        gateway.control.find((message) => message.t === "agent" && message.id === id),
      );
    }
    const [a, c] = [await gateway.open("s", "a"), await gateway.open("t", "c")];
    await gateway.until(() => a.items.length >= 3 && c.items.length >= 3);
    expect(c.messages[0]).toEqual({ first: 1, count: 3 });
    expect(a.messages[0]?.count).toBeLessThan(3);
  });
});
