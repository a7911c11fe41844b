import type { Deadlines } from "../../durable/deadlines.ts";
import { isOverdue } from "../placement/policy.ts";
import type { Words } from "../session-messages.ts";
import type { Store } from "../store.ts";
import type { Hosts } from "./registry.ts";

type Clock = Pick<Deadlines<"grace" | "words">, "set" | "setUnlessSet">;

/** What sessions are told of hosts that leave, are gone for long, or come back as somebody else. */
export class Departures {
  readonly #store: Store;
  readonly #hosts: Hosts;
  readonly #words: Words;
  readonly #clock: Clock;

  constructor(store: Store, hosts: Hosts, words: Words, clock: Clock) {
    this.#store = store;
    this.#hosts = hosts;
    this.#words = words;
    this.#clock = clock;
  }

  /** Its sessions are to end their processes when their turns have ended. */
  drains(host: string): void {
    this.#hosts.drains(host);
    this.tellToLeave(host);
  }

  tellToLeave(host: string): void {
    for (const { session, wish } of this.#store.placedOn(host)) {
      const reason = `host ${host} is being drained`;
      this.#words.add(session, { kind: "drain", body: { host, processRequest: wish, reason } });
    }
  }

  /** An earlier life of the host had the session's process. */
  restarted(host: string, { session, wish }: { session: string; wish: number }): void {
    this.#store.release(session, wish);
    const reason = `host ${host} was restarted`;
    this.#words.add(session, { kind: "lost", body: { host, processRequest: wish, reason } });
  }

  /** Its sessions stay where they are for now: it may come back, with the same processes or with news of them. */
  goes(name: string, lastSeenAt: number, left: boolean): void {
    this.#hosts.goes(name, lastSeenAt, left);
    this.giveUpAbsent();
  }

  /** Sessions whose host has been away for too long hear of it: they are to go elsewhere, or they wait. */
  giveUpAbsent(): void {
    const { sharedFiles, hostGraceMs } = this.#store.settings();
    const now = Date.now();
    const untold = this.#hosts.all().filter(({ state, told }) => state === "gone" && !told);
    for (const host of untold.filter((one) => isOverdue(one, hostGraceMs, now))) {
      this.#hosts.told(host.name, true);
      const reason = `host ${host.name} is gone since ${new Date(host.lastSeenAt).toISOString()}`;
      for (const { session, wish } of this.#store.placedOn(host.name)) {
        const body = { host: host.name, processRequest: wish, reason };
        // Of a host that has left nothing can come back but its name.
        const lost = sharedFiles || host.left;
        if (lost) this.#store.release(session, wish);
        this.#words.add(session, { kind: lost ? "lost" : "absent", body });
        this.#clock.setUnlessSet("words", now);
      }
    }
    const next = untold.map(({ lastSeenAt }) => lastSeenAt + hostGraceMs).filter((at) => at > now);
    if (next.length > 0) this.#clock.set("grace", Math.min(...next));
  }
}
