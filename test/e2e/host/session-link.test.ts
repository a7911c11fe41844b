import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { startHost } from "./harness.ts";

describe("the link to a session", () => {
  test("loses and repeats nothing whenever the socket breaks", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    const rounds = 100;
    const perhaps = () => Math.random() < 0.2;
    // The items are stored, but the host gets no acknowledgement.
    session.dropsBeforeAck = perhaps;
    for (let round = 0; round < rounds; round++) {
      session.tell("stream", { count: 300, size: 100 });
      // The line is sent, and nobody knows whether it arrived.
      if (perhaps()) session.socket?.terminate();
      if (round % 5 === 0) await gateway.until(() => session.frames.length > round * 300);
    }
    await gateway.until(() => session.frames.filter((frame) => frame.streamed).length >= rounds);
    session.tell("exit", { code: 0 });
    await gateway.until(() => session.exit);

    expect(session.faults).toEqual([]);
    const numbers = session.frames.slice(1).map((frame) => frame.n ?? "end");
    expect(numbers).toEqual(
      Array(rounds)
        .fill([...Array(300).keys(), "end"])
        .flat(),
    );
    expect(new Set(session.hellos.map(({ run }) => run)).size).toBe(1);
    expect(session.hellos.length).toBeGreaterThan(5);
  });

  test("dials with growing pauses a session that welcomes it and fails on its items", async () => {
    const timing = { retryMinMs: 4, retryMaxMs: 10_000, localSpreadMs: 4 };
    const { gateway, log } = await startHost({ timing });
    const session = await gateway.open("s");
    session.failing = true;
    const pauses = () =>
      log.flatMap((line) => /trying again in ([\d.]+) s: .*sessions/.exec(line)?.[1] ?? []);
    // Pauses are random from zero on, and only those of a growing series become this long.
    await gateway.until(() => pauses().some((seconds) => Number(seconds) > 0.1));
    session.failing = false;
    session.tell("hello");
    await gateway.until(() => session.frames.find((frame) => frame.echo));
    const lost = pauses().length;
    session.socket?.terminate();
    await gateway.until(() => pauses().length > lost);
    // An acknowledgement has ended the series.
    expect(pauses().at(-1)).toBe("0.0");
  });

  test("reports on each socket which lines the agent already has", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("one");
    session.tell("two");
    await gateway.until(() => session.frames.length === 3);
    session.socket?.terminate();
    await gateway.until(() => session.hellos.length === 2);
    expect(session.hellos.map(({ delivered }) => delivered)).toEqual([0, 3]);
  });

  test("delivers a repeated line to the agent only once", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("one");
    session.tell("two");
    await gateway.until(() => session.frames.length === 3);
    session.repeat();
    session.tell("exit", { code: 0 });
    await gateway.until(() => session.exit);
    expect(session.frames.slice(1)).toMatchObject([{ echo: { method: "one" } }, { echo: { method: "two" } }]);
  });

  test("blocks the agent while nothing is acknowledged", async () => {
    const { gateway } = await startHost({ timing: { pingEveryMs: 20 } });
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    session.acking = false;
    const size = 10_000;
    const count = Math.ceil((4 * DEFAULT_LIMITS.hostWindowChars) / size);
    session.tell("stream", { count, size });
    session.tell("exit", { code: 0 });
    // The host reads until its window and the pipe are full. Then the agent cannot write any more.
    const { pid } = session.events<{ pid: number }>("started")[0] as { pid: number };
    await gateway.until(() => written(pid) > 0.9 * DEFAULT_LIMITS.hostWindowChars);
    const { pings } = gateway;
    await gateway.until(() => gateway.pings > pings + 10);
    expect(written(pid)).toBeLessThan(DEFAULT_LIMITS.hostWindowChars + 1024 * 1024);
    expect(session.frames.length * size).toBeLessThan(
      (DEFAULT_LIMITS.linkMessages + 1) * DEFAULT_LIMITS.linkBatchChars,
    );
    session.ack();
    await gateway.until(() => session.exit);
    expect(session.frames.filter((frame) => frame.method === "update")).toHaveLength(count);
    expect(session.faults).toEqual([]);
  });

  test("does not keep the host from shutting down without acknowledgements", async () => {
    const { gateway, host } = await startHost();
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    session.acking = false;
    session.tell("stream", { count: 16, size: DEFAULT_LIMITS.hostWindowChars / 4 });
    await gateway.until(() => session.frames.length > 1);
    await host.close();
    expect(session.exit?.error).toBe("the host was shut down");
    expect(session.faults).toEqual([]);
  });

  test("survives an agent that does not read for a while", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    session.tell("block", { ms: 500 });
    const padding = "x".repeat(DEFAULT_LIMITS.hostWindowChars / 8);
    for (let n = 0; n < 12; n++) session.tell("echo", { n, padding });
    const echoes = await gateway.until(() => {
      const found = session.frames.filter((frame) => frame.echo);
      return found.length >= 12 && found;
    });
    expect(echoes.map((frame) => (frame.echo as { params: { n: number } }).params.n)).toEqual([
      ...Array(12).keys(),
    ]);
    expect(session.hellos.length).toBeGreaterThan(1);
  });

  test("carries what the agent streams in few messages, the first piece and requests at once", async () => {
    const { gateway } = await startHost({ limits: { chunkWindowMs: 60 * 60 * 1000 } });
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    const before = session.messages.length;
    const updates = Array.from({ length: 50 }, (_, n) => ({ method: "update", n }));
    const request = { id: "r", method: "session/request_permission" };
    const chunks = [...updates, request].map((frame) =>
      Buffer.from(`${JSON.stringify(frame)}\n`).toString("base64"),
    );
    session.tell("write", { chunks });
    await gateway.until(() => session.messages.length > before);
    expect(session.frames[1]).toEqual(updates[0]);
    await gateway.until(() => session.frames.find(({ id }) => id === "r"));
    expect(session.messages.length - before).toBeLessThanOrEqual(2);
    expect(session.frames.slice(1)).toEqual([...updates, request]);
  });

  test("carries a frame larger than a batch", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    const text = "é".repeat(1.5 * DEFAULT_LIMITS.linkBatchChars);
    session.tell("echo", { text });
    const frame = await gateway.until(() => session.frames.find((frame) => frame.echo));
    expect((frame.echo as { params: { text: string } }).params.text === text).toBe(true);
  });

  test.each([4404, 4409])("stops the agent when the session closes the socket with %i", async (code) => {
    const { gateway, host } = await startHost();
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    const { pid } = session.events<{ pid: number }>("started")[0] as { pid: number };
    session.socket?.close(code, "bye");
    await gateway.until(() => session.socket === undefined);
    await host.close();
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    expect(session.hellos).toHaveLength(1);
  });

  test("stops the agent when there is no such session", async () => {
    const { gateway, log } = await startHost();
    gateway.refusals.set("/host/sessions/", 404);
    await gateway.open("s");
    await expect.poll(() => log).toContain("session s: the session is gone, agent stopped");
    expect(gateway.upgrades.filter(({ url }) => url?.startsWith("/host/sessions/"))).toHaveLength(1);
  });

  test("notices a gateway that disappears silently", async () => {
    const { gateway } = await startHost({ timing: { pingEveryMs: 20, pongWithinMs: 20 } });
    const session = await gateway.open("s");
    await gateway.until(() => session.hellos.length === 1);
    gateway.answersPings = false;
    await gateway.until(() => session.hellos.length >= 2);
    gateway.answersPings = true;
    session.tell("still there");
    await gateway.until(() => session.frames.find((frame) => frame.echo));
  });
});

/** The number of bytes that a process has written so far, as Linux counts them. */
function written(pid: number): number {
  return Number(/^wchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);
}
