import type { Deadlines } from "../../durable/deadlines.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Placements } from "../placement/placements.ts";
import { isOverdue } from "../placement/policy.ts";
import type { SessionOutbox } from "../session-outbox.ts";
import type { WorkspaceStore } from "../store.ts";
import type { HostRecord } from "./record.ts";
import type { HostRegistry } from "./registry.ts";

type Timers = Pick<Deadlines<"grace" | "session-messages">, "set" | "setAtMost">;

/** Tells sessions when their host is drained, restarted, or away for longer than the grace period. */
export class HostDepartures {
  readonly #store: WorkspaceStore;
  readonly #placements: Placements;
  readonly #hosts: HostRegistry;
  readonly #outbox: SessionOutbox;
  readonly #timers: Timers;
  readonly #limits: Pick<Limits, "hostReturnMs">;
  /** Hosts can reach this object since then. They could not while the gateway was away, and the grace ran on. */
  readonly #reachableSince = Date.now();

  constructor(
    store: WorkspaceStore,
    placements: Placements,
    hosts: HostRegistry,
    outbox: SessionOutbox,
    timers: Timers,
    limits: Pick<Limits, "hostReturnMs">,
  ) {
    this.#store = store;
    this.#placements = placements;
    this.#hosts = hosts;
    this.#outbox = outbox;
    this.#timers = timers;
    this.#limits = limits;
  }

  /** The host takes no new sessions, and its sessions end their processes after their turns. */
  markDraining(host: string): void {
    this.#hosts.markDraining(host);
    this.requestDrain(host);
  }

  requestDrain(host: string): void {
    for (const { session, processRequest } of this.#placements.on(host)) {
      const reason = `host ${host} is being drained`;
      this.#outbox.add(session, { kind: "drain", body: { host, processRequest, reason } });
    }
  }

  /** An earlier instance of the host ran the session's process. */
  markRestarted(
    host: string,
    { session, processRequest }: { session: string; processRequest: number },
  ): void {
    this.#placements.remove(session, processRequest);
    const reason = `host ${host} was restarted`;
    this.#outbox.add(session, { kind: "lost", body: { host, processRequest, reason } });
  }

  /** The host's sessions stay placed on it for the grace period: it may reconnect with their processes. */
  markGone(name: string, lastSeenAt: number, { hasLeft }: { hasLeft: boolean }): void {
    this.#hosts.markGone(name, lastSeenAt, { hasLeft });
    this.notifyOverdue();
  }

  /**
   * Tells the sessions of hosts whose grace period is over: they go elsewhere, or wait for their host. A gateway that was
   * away itself first gives its hosts a chance to return.
   */
  notifyOverdue(): void {
    const { sharedFiles, hostGraceMs } = this.#store.settings();
    const now = Date.now();
    const chanceUntil = this.#reachableSince + Math.min(hostGraceMs, this.#limits.hostReturnMs);
    const pending = this.#hosts.all().filter(({ state, isNotified }) => state === "gone" && !isNotified);
    const next: number[] = [];
    for (const host of pending) {
      const isDue = isOverdue(host, hostGraceMs, now);
      if (isDue && (host.hasLeft || chanceUntil <= now)) this.#notify(host, sharedFiles, now);
      // Alarms keep the object in memory until the chance is over. An object that starts again gives another one.
      else next.push(isDue ? Math.min(chanceUntil, now + AWAKE_MS) : host.lastSeenAt + hostGraceMs);
    }
    if (next.length > 0) this.#timers.set("grace", Math.min(...next));
  }

  #notify({ name, lastSeenAt, hasLeft }: HostRecord, sharedFiles: boolean, now: number): void {
    this.#hosts.setNotified(name);
    const reason = `host ${name} has been gone since ${isoTime(lastSeenAt)}`;
    // No process comes back with a host that has left, even if a host of its name connects.
    const isLost = sharedFiles || hasLeft;
    for (const { session, processRequest } of this.#placements.on(name)) {
      if (isLost) this.#placements.remove(session, processRequest);
      const body = { host: name, processRequest, reason };
      this.#outbox.add(session, { kind: isLost ? "lost" : "absent", body });
      this.#timers.setAtMost("session-messages", now);
    }
  }
}

/** An object without an event for ten seconds may be taken out of memory. */
const AWAKE_MS = 5_000;
