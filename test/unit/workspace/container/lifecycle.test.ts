import { expect, describe as group, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../../src/protocol/limits.ts";
import {
  connects,
  describe,
  ends,
  type Life,
  NEVER_STARTED,
  retryAt,
  starts,
  stops,
} from "../../../../src/workspace/container/lifecycle.ts";

const NOW = 1_000_000;

group("a container", () => {
  test("a container that is needed for the first time may start at once", () => {
    expect(retryAt(NEVER_STARTED)).toBe(0);
    expect(starts(NEVER_STARTED, NOW)).toMatchObject({ state: "starting", number: 1, since: NOW });
  });

  test("a container that fails gets longer and longer pauses, up to a limit", () => {
    let life: Life = NEVER_STARTED;
    const pauses: number[] = [];
    for (let i = 0; i < 12; i += 1) {
      life = ends(starts(life, NOW), NOW, "no room");
      pauses.push(retryAt(life) - NOW);
    }
    const { containerBackoffMs, containerBackoffMaxMs } = DEFAULT_LIMITS;
    expect(pauses.slice(0, 3)).toEqual([1, 2, 4].map((times) => times * containerBackoffMs));
    expect(pauses.at(-1)).toBe(containerBackoffMaxMs);
    expect(life).toMatchObject({ state: "asleep", number: 12, failures: 12 });
    expect(describe(life)).toBe("a container, which could not be started: no room");
  });

  test("a container that connects and ends at once has failed, and a long run resets the pauses", () => {
    const failed = ends(starts(NEVER_STARTED, NOW), NOW, "x");
    const up = connects(starts(failed, NOW), NOW);
    expect(ends(up, NOW + 1, "y")).toMatchObject({ failures: 2, reason: "y" });
    expect(ends(up, NOW + DEFAULT_LIMITS.containerStableMs, "y")).toMatchObject({ failures: 1, reason: "y" });
  });

  test("a container that is stopped as idle has not failed", () => {
    const failed = ends(starts(NEVER_STARTED, NOW), NOW, "x");
    const asleep = ends(stops(connects(starts(failed, NOW), NOW), NOW), NOW, "exit code 0");
    expect(asleep).toMatchObject({ state: "asleep", failures: 0, reason: null });
    expect(retryAt(asleep)).toBe(0);
  });

  test("a container whose host does not dial in has failed once", () => {
    const asleep = ends(stops(starts(NEVER_STARTED, NOW), NOW, "too late"), NOW, "killed");
    expect(asleep).toMatchObject({ state: "asleep", failures: 1, reason: "too late" });
  });
});
