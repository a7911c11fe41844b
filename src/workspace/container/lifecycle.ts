import { LIMITS } from "../../protocol/limits.ts";

/** The lives of the host that a workspace starts itself, as plain values. */

export type Life = {
  state: "asleep" | "starting" | "up" | "stopping";
  /** Counts the starts: what is heard of an earlier one is out of date. */
  number: number;
  since: number;
  /** Starts in a row that came to nothing, and why the last one did. */
  failures: number;
  reason: string | null;
};

export const NEVER_STARTED: Life = { state: "asleep", number: 0, since: 0, failures: 0, reason: null };

/** When it may be started again. */
export function retryAt({ failures, since }: Life): number {
  if (failures === 0) return 0;
  return since + Math.min(LIMITS.containerBackoffMs * 2 ** (failures - 1), LIMITS.containerBackoffMaxMs);
}

export function starts(life: Life, now: number): Life {
  return { ...life, state: "starting", number: life.number + 1, since: now };
}

export function connects(life: Life, now: number): Life {
  return { ...life, state: "up", since: now };
}

/** It is told to end: because nobody needs it, or because of a failure. */
export function stops(life: Life, now: number, failure?: string): Life {
  const outcome =
    failure === undefined ? { failures: 0, reason: null } : { failures: life.failures + 1, reason: failure };
  return { ...life, ...outcome, state: "stopping", since: now };
}

/** One that had been up for a while is forgiven what was before. */
export function ends(life: Life, now: number, reason: string): Life {
  const asleep = { ...life, state: "asleep" as const, since: now };
  if (life.state === "stopping") return asleep;
  const isStable = life.state === "up" && life.since + LIMITS.containerStableMs <= now;
  return { ...asleep, failures: isStable ? 1 : life.failures + 1, reason };
}

/** What somebody who waits for it waits for. */
export function describe({ state, failures, reason }: Life): string {
  const before = failures === 0 ? "" : ` (before: ${reason})`;
  switch (state) {
    case "asleep":
      return failures === 0 ? "a container" : `a container, which could not be started: ${reason}`;
    case "starting":
      return `a container, which is being started${before}`;
    case "up":
      return "the container's host";
    case "stopping":
      return `a container, which is being ended${before}`;
  }
}
