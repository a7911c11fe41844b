import type { Limits } from "../../protocol/limits.ts";

/** The lifecycle of a workspace's container as plain values: asleep → starting → up → stopping → asleep. */
export type ContainerState = {
  state: "asleep" | "starting" | "up" | "stopping";
  /** Counts the starts. A report about an earlier start is out of date. */
  startNumber: number;
  since: number;
  /** Consecutive failed starts, and the reason of the last failure. */
  failures: number;
  reason: string | null;
};

export const NEVER_STARTED: ContainerState = {
  state: "asleep",
  startNumber: 0,
  since: 0,
  failures: 0,
  reason: null,
};

type Backoff = Pick<Limits, "containerBackoffMs" | "containerBackoffMaxMs">;

/** When the container may be started again. The pause doubles with each failure. */
export function nextStartAt({ failures, since }: ContainerState, limits: Backoff): number {
  if (failures === 0) return 0;
  return since + Math.min(limits.containerBackoffMs * 2 ** (failures - 1), limits.containerBackoffMaxMs);
}

export function started(container: ContainerState, now: number): ContainerState {
  return { ...container, state: "starting", startNumber: container.startNumber + 1, since: now };
}

/** The container's host has dialled in. */
export function connected(container: ContainerState, now: number): ContainerState {
  return { ...container, state: "up", since: now };
}

/** The container is told to end: because nobody needs it, or because of a failure. */
export function stopped(container: ContainerState, now: number, failure?: string): ContainerState {
  const outcome =
    failure === undefined
      ? { failures: 0, reason: null }
      : { failures: container.failures + 1, reason: failure };
  return { ...container, ...outcome, state: "stopping", since: now };
}

/** The container has ended. After `containerStableMs` of service its earlier failures no longer count. */
export function ended(
  container: ContainerState,
  now: number,
  reason: string,
  { containerStableMs }: Pick<Limits, "containerStableMs">,
): ContainerState {
  const asleep = { ...container, state: "asleep" as const, since: now };
  if (container.state === "stopping") return asleep;
  const isStable = container.state === "up" && container.since + containerStableMs <= now;
  return { ...asleep, failures: isStable ? 1 : container.failures + 1, reason };
}

/** Tells people what a session that needs the container waits for. */
export function describe({ state, failures, reason }: ContainerState): string {
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
