import { expect, describe as group, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../../src/protocol/limits.ts";
import {
  type ContainerState,
  connected,
  describe,
  ended,
  NEVER_STARTED,
  nextStartAt,
  started,
  stopped,
} from "../../../../src/workspace/container/lifecycle.ts";

const NOW = 1_000_000;

group("a container", () => {
  test("a container that is needed for the first time may start at once", () => {
    expect(nextStartAt(NEVER_STARTED, DEFAULT_LIMITS)).toBe(0);
    expect(started(NEVER_STARTED, NOW)).toMatchObject({ state: "starting", startNumber: 1, since: NOW });
  });

  test("a container that fails gets longer and longer pauses, up to a limit", () => {
    let container: ContainerState = NEVER_STARTED;
    const pauses: number[] = [];
    for (let i = 0; i < 12; i += 1) {
      container = ended(started(container, NOW), NOW, "no room", DEFAULT_LIMITS);
      pauses.push(nextStartAt(container, DEFAULT_LIMITS) - NOW);
    }
    const { containerBackoffMs, containerBackoffMaxMs } = DEFAULT_LIMITS;
    expect(pauses.slice(0, 3)).toEqual([1, 2, 4].map((times) => times * containerBackoffMs));
    expect(pauses.at(-1)).toBe(containerBackoffMaxMs);
    expect(container).toMatchObject({ state: "asleep", startNumber: 12, failures: 12 });
    expect(describe(container)).toBe("a container, which could not be started: no room");
  });

  test("a container that connects and ends at once has failed, and a long run resets the pauses", () => {
    const failed = ended(started(NEVER_STARTED, NOW), NOW, "x", DEFAULT_LIMITS);
    const up = connected(started(failed, NOW), NOW);
    expect(ended(up, NOW + 1, "y", DEFAULT_LIMITS)).toMatchObject({ failures: 2, reason: "y" });
    expect(ended(up, NOW + DEFAULT_LIMITS.containerStableMs, "y", DEFAULT_LIMITS)).toMatchObject({
      failures: 1,
      reason: "y",
    });
  });

  test("a container that is stopped as idle has not failed", () => {
    const failed = ended(started(NEVER_STARTED, NOW), NOW, "x", DEFAULT_LIMITS);
    const asleep = ended(
      stopped(connected(started(failed, NOW), NOW), NOW),
      NOW,
      "exit code 0",
      DEFAULT_LIMITS,
    );
    expect(asleep).toMatchObject({ state: "asleep", failures: 0, reason: null });
    expect(nextStartAt(asleep, DEFAULT_LIMITS)).toBe(0);
  });

  test("a container whose host does not dial in has failed once", () => {
    const asleep = ended(
      stopped(started(NEVER_STARTED, NOW), NOW, "too late"),
      NOW,
      "killed",
      DEFAULT_LIMITS,
    );
    expect(asleep).toMatchObject({ state: "asleep", failures: 1, reason: "too late" });
  });

  test("a container that is stopped keeps the number of its start", () => {
    const up = connected(started(NEVER_STARTED, NOW), NOW);
    const stopping = stopped(up, NOW + 1);
    expect(stopping).toMatchObject({ state: "stopping", startNumber: 1, since: NOW + 1 });
    expect(started(ended(stopping, NOW + 2, "exit code 0", DEFAULT_LIMITS), NOW + 3).startNumber).toBe(2);
  });

  test("a container that ends while it starts has failed once more", () => {
    const again = started(ended(started(NEVER_STARTED, NOW), NOW, "x", DEFAULT_LIMITS), NOW);
    expect(ended(again, NOW, "y", DEFAULT_LIMITS)).toMatchObject({ failures: 2, reason: "y" });
  });

  const failed = ended(started(NEVER_STARTED, NOW), NOW, "x", DEFAULT_LIMITS);
  test.each([
    [NEVER_STARTED, "a container"],
    [started(NEVER_STARTED, NOW), "a container, which is being started"],
    [started(failed, NOW), "a container, which is being started (before: x)"],
    [connected(started(NEVER_STARTED, NOW), NOW), "the container's host"],
    [stopped(started(NEVER_STARTED, NOW), NOW, "late"), "a container, which is being ended (before: late)"],
  ])("a container describes what a session waits for: %#", (container, words) => {
    expect(describe(container)).toBe(words);
  });
});
