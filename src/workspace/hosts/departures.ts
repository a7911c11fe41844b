import type { Deadlines } from "../../durable/deadlines.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Placements } from "../placement/placements.ts";
import { isOverdue } from "../placement/policy.ts";
import type { SessionOutbox } from "../session-outbox.ts";
import type { WorkspaceStore } from "../store.ts";
import type { HostRegistry } from "./registry.ts";

type Timers = Pick<Deadlines<"grace" | "session-messages">, "set" | "setUnlessSet">;

/** Tells sessions when their host is drained, restarted, or away for longer than the grace period. */
export class HostDepartures {
  readonly #store: WorkspaceStore;
  readonly #placements: Placements;
  readonly #hosts: HostRegistry;
  readonly #outbox: SessionOutbox;
  readonly #timers: Timers;

  constructor(
    store: WorkspaceStore,
    placements: Placements,
    hosts: HostRegistry,
    outbox: SessionOutbox,
    timers: Timers,
  ) {
    this.#store = store;
    this.#placements = placements;
    this.#hosts = hosts;
    this.#outbox = outbox;
    this.#timers = timers;
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

  /** Tells the sessions of hosts whose grace period is over: they go elsewhere, or wait for their host. */
  notifyOverdue(): void {
    const { sharedFiles, hostGraceMs } = this.#store.settings();
    const now = Date.now();
    const pending = this.#hosts.all().filter(({ state, isNotified }) => state === "gone" && !isNotified);
    for (const host of pending.filter((one) => isOverdue(one, hostGraceMs, now))) {
      this.#hosts.setNotified(host.name);
      const reason = `host ${host.name} has been gone since ${isoTime(host.lastSeenAt)}`;
      // No process comes back with a host that has left, even if a host of its name connects.
      const isLost = sharedFiles || host.hasLeft;
      for (const { session, processRequest } of this.#placements.on(host.name)) {
        if (isLost) this.#placements.remove(session, processRequest);
        const body = { host: host.name, processRequest, reason };
        this.#outbox.add(session, { kind: isLost ? "lost" : "absent", body });
        this.#timers.setUnlessSet("session-messages", now);
      }
    }
    const next = pending.map(({ lastSeenAt }) => lastSeenAt + hostGraceMs).filter((at) => at > now);
    if (next.length > 0) this.#timers.set("grace", Math.min(...next));
  }
}
