import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { TerminalReport } from "../../../../src/host/io/terminal-report.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const ENDED = { exitCode: 0, signal: null };

function start(chars = 1000) {
  const said: unknown[] = [];
  const sink = { said, hasRoom: true };
  const report = new TerminalReport(
    "t",
    {
      hasRoom: () => sink.hasRoom,
      output: (terminalId, data) => said.push([terminalId, data]),
      ended: (terminalId, status) => said.push([terminalId, status]),
      redactPart: (text, { isCut }) => (isCut ? text.replace(/^cret/, "[cut]") : text),
    },
    { chars, windowMs: 80 },
  );
  return { report, sink, said };
}

describe("the report of a terminal", () => {
  test("has the first piece at once, and the pieces of a window together", () => {
    const { report, said } = start();
    for (const text of ["a", "b", "c"]) report.push(text);
    expect(said).toEqual([["t", "a"]]);
    vi.advanceTimersByTime(80);
    expect(said).toEqual([
      ["t", "a"],
      ["t", "bc"],
    ]);
    vi.advanceTimersByTime(1000);
    report.push("d");
    expect(said.at(-1)).toEqual(["t", "d"]);
  });

  test("is complete before the end is reported", () => {
    const { report, said } = start();
    for (const text of ["a", "b"]) report.push(text);
    report.finish(ENDED);
    vi.advanceTimersByTime(1000);
    expect(said).toEqual([
      ["t", "a"],
      ["t", "b"],
      ["t", ENDED],
    ]);
  });

  test("waits while there is no room", () => {
    const { report, sink, said } = start();
    sink.hasRoom = false;
    report.push("a");
    vi.advanceTimersByTime(800);
    expect(said).toEqual([]);
    sink.hasRoom = true;
    vi.advanceTimersByTime(80);
    expect(said).toEqual([["t", "a"]]);
  });

  test("has the beginning and the end of a long output, without the half of a secret at the cut", () => {
    const { report, said } = start(10);
    report.push("0123456789se");
    report.push(`cret${"x".repeat(16 * 1024 - 4)}`);
    report.finish(ENDED);
    expect(said).toEqual([
      ["t", "0123456789"],
      ["t", `\n… 2 characters are left out …\n[cut]${"x".repeat(16 * 1024 - 4)}`],
      ["t", ENDED],
    ]);
  });

  test("leaves nothing out if the output is just longer than the limit", () => {
    const { report, said } = start(10);
    report.push("0123456789ab");
    report.finish(ENDED);
    expect(said).toEqual([
      ["t", "0123456789"],
      ["t", "ab"],
      ["t", ENDED],
    ]);
  });
});
