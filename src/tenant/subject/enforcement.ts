import type { Deadlines } from "../../durable/deadlines.ts";
import { callObject } from "../../durable/object-call.ts";
import { socketHolder, workspaceObject } from "../../durable/objects.ts";
import { within } from "../../durable/within.ts";
import type { SubjectReach } from "../../protocol/subject-rpc.ts";
import type { HeldSocket, SubjectSockets } from "./sockets.ts";
import type { EndingHostToken, SubjectTokens } from "./tokens.ts";

type Parts = {
  env: Env;
  identity: () => { tenant: string; subject: string };
  sockets: SubjectSockets;
  tokens: SubjectTokens;
  deadlines: Deadlines<"enforcement">;
};

/**
 * Ends the sockets of a subject in the objects that hold them. Each order is in storage first and is forgotten when its
 * object has confirmed it. Orders without a confirmation are repeated by a deadline, with growing pauses.
 */
export class SubjectEnforcement {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Carries out orders that are marked in storage, and waits a while for confirmations. */
  async carryOut(
    sockets: readonly HeldSocket[],
    hosts: readonly EndingHostToken[],
    waitMs: number,
  ): Promise<SubjectReach> {
    if (sockets.length + hosts.length === 0) return { sockets: 0, hosts: 0, unconfirmed: 0 };
    // The deadline is set first: an eviction in between repeats the orders.
    this.#parts.deadlines.setAtMost("enforcement", Date.now() + 2 * waitMs);
    const told = await this.#tell(sockets, hosts, waitMs);
    return { sockets: sockets.length, ...told };
  }

  /** Repeats the orders that are not confirmed. Throws if some still are not. */
  async retry(waitMs: number): Promise<void> {
    const { sockets, tokens } = this.#parts;
    sockets.removeLapsed(Date.now());
    const { unconfirmed } = await this.#tell(sockets.ending(), tokens.ending(), waitMs);
    if (unconfirmed > 0) throw new Error(`${unconfirmed} orders of revocations not confirmed`);
  }

  async #tell(
    sockets: readonly HeldSocket[],
    tokens: readonly EndingHostToken[],
    waitMs: number,
  ): Promise<Omit<SubjectReach, "sockets">> {
    let hosts = 0;
    let unconfirmed = 0;
    const orders = [
      ...sockets.map((socket) => this.#endSocket(socket)),
      ...tokens.map(async (token) => {
        hosts += await this.#endHostToken(token);
      }),
    ].map(async (order) => {
      unconfirmed += 1;
      await order;
      unconfirmed -= 1;
    });
    await within(waitMs, Promise.allSettled(orders));
    if (unconfirmed > 0) console.error("orders of revocations not confirmed", { unconfirmed });
    return { hosts, unconfirmed };
  }

  async #endSocket({ id, holder }: HeldSocket): Promise<void> {
    const { env, identity, sockets } = this.#parts;
    await callObject(
      () => socketHolder(env, identity().tenant, holder),
      (object) => object.endSocket(id, "token revoked"),
    );
    sockets.confirmEnd(id);
  }

  async #endHostToken(token: EndingHostToken): Promise<number> {
    const { env, identity, tokens } = this.#parts;
    const { tenant, subject } = identity();
    const ended = await callObject(
      () => workspaceObject(env, tenant, token.workspace),
      (object) => object.endHostToken({ subject, jti: token.jti }),
    );
    tokens.confirmEnd(token);
    return ended;
  }
}
