import { describe, expect, test } from "vitest";
import { applyEffects, type WorkspaceChange } from "../../../src/workspace/changes.ts";

function run(change: WorkspaceChange, deliver: Promise<void> = Promise.resolve()) {
  const effects: string[] = [];
  const note = (effect: string) => () => void effects.push(effect);
  const applied = applyEffects(change, {
    place: note("place"),
    show: note("show"),
    index: note("index"),
    watch: note("watch"),
    wake: note("wake"),
    deliver: async () => {
      effects.push("deliver");
      await deliver;
    },
  });
  return { effects, applied };
}

describe("a change of a workspace", () => {
  test("places waiting sessions before it is shown and delivered", () => {
    expect(run("hosts").effects).toEqual(["place", "show", "index", "watch", "wake", "deliver"]);
  });

  test("has run all its effects when it returns, except that a delivery takes time", async () => {
    let finish = () => {};
    const delivery = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const { effects, applied } = run("host-report", delivery);
    expect(effects).toEqual(["show", "index", "watch", "wake", "deliver"]);
    finish();
    await applied;
  });

  test("is only shown if it concerns a host's load", () => {
    expect(run("host-load").effects).toEqual(["show"]);
  });

  test("delivers no messages if it concerns a process request", () => {
    expect(run("process-request").effects).not.toContain("deliver");
  });
});
