import type { Deadlines } from "../durable/deadlines.ts";
import { callObject, RESPONSE_MS } from "../durable/object-call.ts";
import { connectionObject, socketHolder, subjectObject, workspaceObject } from "../durable/objects.ts";
import { within } from "../durable/within.ts";
import type { Limits } from "../protocol/limits.ts";
import type { RevocationReach } from "../protocol/revocation-reach.ts";
import type { SubjectReach } from "../protocol/subject-rpc.ts";
import type { AnswerLinkMakers } from "./storage/answer-link-makers.ts";
import type { EarlierSocket, EarlierSockets } from "./storage/earlier-sockets.ts";
import type { RevocationTarget } from "./storage/makers.ts";
import { bearerName, type Shares } from "./storage/shares.ts";
import type { TokenList } from "./storage/token-list.ts";
import type { UnconfirmedOrder, UnconfirmedOrders } from "./storage/unconfirmed-orders.ts";
import type { WebhookMakers } from "./storage/webhook-makers.ts";

type Parts = {
  env: Env;
  /** The tenant's name. */
  tenant: () => string;
  limits: Pick<Limits, "revocationWaitMs">;
  tokens: TokenList;
  orders: UnconfirmedOrders;
  earlierSockets: EarlierSockets;
  shares: Shares;
  answerLinks: AnswerLinkMakers;
  webhooks: WebhookMakers;
  /** Whether the link of a share's bearer works; true for every other subject. */
  isOfValidShare: (subject: string) => boolean;
  deadlines: Deadlines<"enforcement">;
};

/**
 * Carries out revocations in other objects: reports them to the objects of their subjects, which end sockets, and has
 * workspaces check the makers of their webhooks. Each order is noted in storage first and forgotten when the other
 * object has confirmed it. Orders without a confirmation are repeated by a deadline, with growing pauses.
 */
export class Enforcement {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Ends everything that a subject has open or has made, or that one token has, and waits a while for confirmations.
   * For a session, these are its links and the sockets of its `connections`.
   */
  async enforce(target: RevocationTarget, connections: readonly string[] = []): Promise<RevocationReach> {
    const { earlierSockets, orders, webhooks } = this.#parts;
    const { kind, value, workspace } = target;
    const made = this.#linksReachedBy(target);
    if (kind === "session") {
      for (const id of connections) orders.putConnection(id);
      const { unconfirmed } = await this.#carryOut([]);
      return { ...made, webhooks: [], sockets: connections.length, hosts: 0, unconfirmed };
    }
    this.#putOrders(kind, value);
    for (const id of made.shares) this.#putOrders("subject", bearerName(id), true);
    const earlier = [
      ...earlierSockets.markEnding(kind, value, workspace),
      ...made.shares.flatMap((id) => earlierSockets.markEnding("jti", bearerName(id))),
    ];
    const paused = webhooks.markChanged(target);
    return { ...made, webhooks: paused, ...(await this.#carryOut(earlier)) };
  }

  /** Orders for the objects of the subjects that a change of revocations is about. */
  #putOrders(kind: "subject" | "jti", value: string, endsAll = false): void {
    const { tokens, orders } = this.#parts;
    for (const subject of tokens.subjectsOf(kind, value)) orders.put(subject, endsAll);
  }

  /** The links that a revocation reaches. They are checked at each use, so nobody has to be told. */
  #linksReachedBy(target: RevocationTarget): Pick<RevocationReach, "shares" | "answerLinks"> {
    const { shares, answerLinks } = this.#parts;
    const now = Date.now();
    return {
      shares: shares.reachedBy(target, now),
      answerLinks: answerLinks.reachedBy(target, now),
    };
  }

  /** Ends the sockets that a removed share link has opened. */
  async endBearers(shareId: string): Promise<void> {
    this.#putOrders("subject", bearerName(shareId), true);
    await this.#carryOut(this.#parts.earlierSockets.markEnding("jti", bearerName(shareId)));
  }

  /** Ends the sockets of a token whose bearer has logged out. What was made with the token stays. */
  async endToken(jti: string): Promise<void> {
    this.#putOrders("jti", jti);
    await this.#carryOut(this.#parts.earlierSockets.markEnding("jti", jti));
  }

  /** A revocation has ended: its subject's object learns of that, and the webhooks that it paused go on. */
  async release(target: RevocationTarget): Promise<void> {
    if (target.kind === "session") return;
    this.#putOrders(target.kind, target.value);
    this.#parts.webhooks.markChanged(target);
    await this.#carryOut([]);
  }

  /** Whether objects of subjects have yet to confirm orders. */
  get isReporting(): boolean {
    return this.#parts.orders.isForSubjects();
  }

  /**
   * Goes on with orders that nobody has begun to carry out: a release before this one has changed revocations, and the
   * storage has noted the orders. True: there are orders.
   */
  resume(): boolean {
    if (!this.isReporting) return false;
    this.#parts.deadlines.setUnlessSet("enforcement", Date.now());
    return true;
  }

  /** Repeats the orders that are not confirmed. Throws if some still are not. */
  async retry(): Promise<void> {
    const { unconfirmed } = await this.#tell(this.#parts.earlierSockets.ending(Date.now()));
    if (unconfirmed > 0) throw new Error(`${unconfirmed} orders of revocations not confirmed`);
  }

  async #carryOut(earlier: readonly EarlierSocket[]): Promise<SubjectReach> {
    const { deadlines, limits, orders, webhooks } = this.#parts;
    const isIdle =
      earlier.length === 0 &&
      orders.subjects().length === 0 &&
      orders.connections().length === 0 &&
      webhooks.changed().size === 0;
    if (isIdle) return { sockets: 0, hosts: 0, unconfirmed: 0 };
    // The deadline is set first: an eviction in between repeats the orders.
    deadlines.setAtMost("enforcement", Date.now() + 2 * limits.revocationWaitMs);
    return this.#tell(earlier);
  }

  /** Tells every object whose order is not confirmed. Says what was ended, and how many orders still are not. */
  async #tell(earlier: readonly EarlierSocket[]): Promise<SubjectReach> {
    const { orders, webhooks, limits } = this.#parts;
    const reach = { sockets: 0, hosts: 0, unconfirmed: 0 };
    const count = ({ sockets, hosts, unconfirmed }: SubjectReach) => {
      reach.sockets += sockets;
      reach.hosts += hosts;
      reach.unconfirmed += unconfirmed;
    };
    for (const { kind } of earlier) reach[kind === "host" ? "hosts" : "sockets"] += 1;
    const told = [
      ...orders.subjects().map(async (order) => count(await this.#tellSubject(order))),
      ...orders.connections().map((id) => this.#endConnection(id)),
      ...earlier.map((socket) => this.#endEarlierSocket(socket)),
      ...[...webhooks.changed()].map(([workspace, changed]) => this.#checkWebhooks(workspace, changed)),
    ];
    let silent = told.length;
    const all = told.map(async (one) => {
      await one;
      silent -= 1;
    });
    // A subject's object waits for the holders of sockets itself before it answers.
    await within(limits.revocationWaitMs + ANSWER_MS, Promise.allSettled(all));
    const unconfirmed = reach.unconfirmed + silent;
    if (silent > 0) console.error("orders of revocations not confirmed", { unconfirmed });
    return { ...reach, unconfirmed };
  }

  /** The subject's object repeats by itself what its holders have not confirmed. */
  async #tellSubject(order: UnconfirmedOrder): Promise<SubjectReach> {
    const { env, limits, orders, tokens, isOfValidShare } = this.#parts;
    const tenant = this.#parts.tenant();
    const { subject } = order;
    const endsAll = order.endsAll || !isOfValidShare(subject);
    const reach = await callObject(
      () => subjectObject(env, tenant, subject),
      (object) =>
        object.applyRevocations({
          ...{ tenant, subject, endsAll, waitMs: limits.revocationWaitMs },
          ...tokens.revocationsOf(subject),
        }),
      { timeoutMs: limits.revocationWaitMs + RESPONSE_MS },
    );
    orders.confirm(order);
    return reach;
  }

  async #endConnection(id: string): Promise<void> {
    const { env, tenant, orders } = this.#parts;
    await callObject(
      () => connectionObject(env, tenant(), id),
      (object) => object.endSocket(id, "session revoked"),
    );
    orders.confirmConnection(id);
  }

  async #endEarlierSocket({ id, holder }: EarlierSocket): Promise<void> {
    const { env, tenant, earlierSockets } = this.#parts;
    await callObject(
      () => socketHolder(env, tenant(), holder),
      (object) => object.endSocket(id, "token revoked"),
    );
    earlierSockets.confirmEnd(id);
  }

  async #checkWebhooks(workspace: string, changed: Parameters<WebhookMakers["confirm"]>[0]): Promise<void> {
    const { env, tenant, webhooks } = this.#parts;
    const checked = await callObject(
      () => workspaceObject(env, tenant(), workspace),
      (object) => object.checkWebhookMakers(),
    );
    webhooks.confirm(changed, checked);
  }
}

/** How long a subject's object may take to answer beyond the wait for its holders. */
const ANSWER_MS = 1_000;
