import { describe, expect, test } from "vitest";
import { OutputBudget } from "../../../../src/host/io/output-budget.ts";

const KB = 1024;
const text = (kilobytes: number, letter: string) => Buffer.alloc(kilobytes * KB, letter);

describe("a budget of outputs", () => {
  test("drops the oldest output first, whosever it is, and says so", () => {
    const budget = new OutputBudget(128 * KB);
    const [old, young] = [budget.open(1024 * KB), budget.open(1024 * KB)];
    old.push(text(64, "a"));
    young.push(text(64, "b"));
    expect(old.read()).toMatchObject({ truncated: false });
    young.push(text(64, "c"));
    expect(old.read()).toEqual({ output: "", truncated: true });
    expect(young.read()).toEqual({ output: `${text(64, "b")}${text(64, "c")}`, truncated: false });
    expect(budget.used).toBeLessThanOrEqual(128 * KB);
  });

  test("is part of a larger one, which all share", () => {
    const all = new OutputBudget(100 * KB);
    const agents = Array.from({ length: 10 }, () => new OutputBudget(64 * KB, all));
    const outputs = agents.map((agent) => agent.open(64 * KB));
    for (let round = 0; round < 50; round++) for (const output of outputs) output.push(text(3, "x"));
    expect(all.used).toBeLessThanOrEqual(100 * KB);
    expect(all.used).toBe(agents.reduce((sum, { used }) => sum + used, 0));
    for (const [at, output] of outputs.entries()) agents[at]?.close(output);
    expect(all.used).toBe(0);
  });

  test("counts memory rather than bytes, so that small writes cannot exceed it", () => {
    const budget = new OutputBudget(64 * KB);
    const outputs = Array.from({ length: 100 }, () => budget.open(1024 * KB));
    for (const output of outputs) output.push(Buffer.from("x"));
    expect(budget.used).toBeLessThanOrEqual(64 * KB);
    expect(outputs.at(-1)?.read()).toEqual({ output: "x", truncated: false });
    expect(outputs[0]?.read()).toEqual({ output: "", truncated: true });
  });
});
