import { callObject } from "../../durable/object-call.ts";
import { socketHolder } from "../../durable/objects.ts";
import type { HeldSocket, SubjectSockets } from "./sockets.ts";

/**
 * Frees the places of sockets that were lost without a word. A reset takes the sockets of many objects along, and their
 * clients come back on new ones long before the leases end. So a subject whose places are all taken is not refused
 * before the holders of its sockets were asked.
 */
export class SocketReview {
  readonly #env: Env;
  readonly #sockets: SubjectSockets;
  #running: Promise<boolean> | undefined;
  #restsUntil = 0;
  /** The id of the last socket that was asked about. */
  #after = "";

  constructor(env: Env, sockets: SubjectSockets) {
    this.#env = env;
    this.#sockets = sockets;
  }

  /** Clients that come at the same time share one review. False: no place was freed. */
  async run(tenant: string): Promise<boolean> {
    if (this.#restsUntil > Date.now()) return false;
    this.#running ??= this.#review(tenant).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Asks page after page until places are free. The next review goes on where this one ends. */
  async #review(tenant: string): Promise<boolean> {
    const from = this.#after;
    for (let hasWrapped = false; ; ) {
      const page = this.#sockets.after(this.#after, SOCKETS_PER_PAGE);
      const held = await Promise.all(page.map((socket) => this.#isHeld(tenant, socket)));
      const freed = page.filter((socket, i) => held[i] === false && this.#sockets.removeUnchanged(socket));
      this.#after = page.at(-1)?.id ?? "";
      if (freed.length > 0) return true;
      if (hasWrapped && this.#after >= from) break;
      if (page.length < SOCKETS_PER_PAGE) {
        if (hasWrapped || from === "") break;
        hasWrapped = true;
        this.#after = "";
      }
    }
    // A subject that really has this many sockets, and goes on opening more, must not cost a review each time.
    this.#restsUntil = Date.now() + REST_MS;
    return false;
  }

  /** A holder that does not respond keeps its socket (I11). */
  async #isHeld(tenant: string, { id, holder }: HeldSocket): Promise<boolean> {
    try {
      const find = () => socketHolder(this.#env, tenant, holder);
      return await callObject(find, (object) => object.holdsSocket(id), { timeoutMs: ANSWER_MS });
    } catch (error) {
      console.warn("holder of a socket not asked", { id, error: String(error) });
      return true;
    }
  }
}

/** Enough for the clients that come back together, and well under the calls that one request may make. */
const SOCKETS_PER_PAGE = 200;
const ANSWER_MS = 2_000;
const REST_MS = 10_000;
