import type { Deadlines } from "../../durable/deadlines.ts";
import { newId } from "../../durable/new-id.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { HandedNotice, NoticeType, Ping } from "../../protocol/webhook-messages.ts";
import { type Act, audit } from "../../tenant/client/audit.ts";
import { seal, unseal } from "../secrets/encryption.ts";
import type { Identity } from "../store.ts";
import { withAnswerLinks } from "./links.ts";
import { type Answer, makeSecret, NO_ANSWER, post } from "./request.ts";
import { admitted, retryAt } from "./retry-schedule.ts";
import { type Delivery, type Webhook, type WebhookInfo, WebhookStore } from "./store.ts";

export type WebhookOrder = Pick<Webhook, "url" | "events" | "links" | "origin">;
/** The only time its secret is shown. */
export type MadeWebhook = WebhookInfo & { secret: string };

type Clock = Pick<Deadlines<"webhooks">, "set" | "clear">;

/** What they need of the workspace. */
type Surroundings = {
  /** Whether the workspace has tables. */
  exists(): boolean;
  identity(): Identity | undefined;
  /** From now on they want to hear of other things. */
  wantedChanged(types: NoticeType[]): void;
};

/**
 * Brings messages to webhooks. Each is a row until its receiver has it or it is given up, and the alarm is set for the
 * next attempt before anything is sent: one that the object does not live to see the end of is made again.
 */
export class Webhooks {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #clock: Clock;
  readonly #surroundings: Surroundings;
  readonly #store: WebhookStore;
  /** Webhooks that are being sent something: one message at a time each. Calls in progress, nothing to restore. */
  readonly #underWay = new Map<string, { isFailing: boolean }>();

  constructor(ctx: DurableObjectState, env: Env, clock: Clock, surroundings: Surroundings) {
    this.#ctx = ctx;
    this.#env = env;
    this.#clock = clock;
    this.#surroundings = surroundings;
    this.#store = new WebhookStore(ctx.storage.sql, () => surroundings.exists());
  }

  // ---- which there are --------------------------------------------------------------------------------

  list(): WebhookInfo[] {
    return this.#store.info();
  }

  has(id: string): boolean {
    return this.#store.has(id);
  }

  wanted(): NoticeType[] {
    return this.#store.wanted();
  }

  async make(order: WebhookOrder): Promise<MadeWebhook | "no key" | "too many"> {
    const id = newId("wh");
    const secret = makeSecret();
    const sealed = await seal(this.#env.SECRETS_KEY, sealName(id), secret);
    if (sealed === undefined) return "no key";
    if (this.#store.all().length >= LIMITS.webhooksPerWorkspace) return "too many";
    this.#change(() => this.#store.add({ id, ...order, secret: sealed, createdAt: Date.now() }));
    return { ...(this.list().find((one) => one.id === id) as WebhookInfo), secret };
  }

  /** False: there is none. */
  remove(id: string): boolean {
    return this.#change(() => this.#store.remove(id));
  }

  #change<T>(change: () => T): T {
    const before = this.wanted();
    const result = change();
    const wanted = this.wanted();
    if (wanted.join() !== before.join()) this.#surroundings.wantedChanged(wanted);
    return result;
  }

  // ---- what they are told -----------------------------------------------------------------------------

  /** Notices of a session. Those that came before are known. */
  take(notices: readonly HandedNotice[]): void {
    const webhooks = this.#store.all();
    if (webhooks.length === 0) return;
    const now = Date.now();
    for (const { id, type, body, lost } of notices) {
      if (!this.#store.hear(id)) continue;
      for (const webhook of webhooks.filter(({ events }) => events.includes(type))) {
        this.#store.enqueue(webhook.id, id, body, now);
        if (lost > 0) this.#store.drop(webhook.id, lost);
      }
    }
    this.deliver();
  }

  /** Something to see whether it arrives. False: there is no such webhook. */
  ping(webhook: string): boolean {
    const identity = this.#surroundings.identity();
    if (!identity || !this.has(webhook)) return false;
    const timestamp = new Date().toISOString();
    const message: Ping = { type: "ping", timestamp, data: { workspace: identity.workspace, webhook } };
    this.#store.enqueue(webhook, newId("msg"), JSON.stringify(message), Date.now());
    this.deliver();
    return true;
  }

  /** Begins what is due and there is room for. Whatever ends makes room, and is followed by the next. */
  deliver(): void {
    const now = Date.now();
    const waiting = this.#store.all().flatMap((webhook) => {
      const delivery = this.#store.next(webhook.id);
      return delivery ? { webhook, delivery, isFailing: webhook.failingSince !== null } : [];
    });
    const due = waiting
      .filter(({ webhook, delivery }) => delivery.next <= now && !this.#underWay.has(webhook.id))
      .sort((a, b) => a.delivery.next - b.delivery.next);
    const begun = admitted(due, [...this.#underWay.values()]);
    for (const { webhook, isFailing } of begun) this.#underWay.set(webhook.id, { isFailing });
    this.#arm(waiting.map(({ delivery }) => delivery.next).filter((at) => at > now));
    for (const { webhook, delivery } of begun) this.#ctx.waitUntil(this.#attempt(webhook, delivery));
  }

  /** What is under way, and what waits for it to end, is looked at again should this object not live to do so. */
  #arm(later: readonly number[]): void {
    const net = this.#underWay.size > 0 ? [Date.now() + LIMITS.webhookTimeoutMs] : [];
    const times = [...later, ...net];
    if (times.length > 0) this.#clock.set("webhooks", Math.min(...times));
    else this.#clock.clear("webhooks");
  }

  async #attempt(webhook: Webhook, delivery: Delivery): Promise<void> {
    try {
      const answer = await this.#send(webhook, delivery);
      if (this.has(webhook.id)) this.#settle(webhook, delivery, answer);
    } finally {
      this.#underWay.delete(webhook.id);
      this.deliver();
    }
  }

  /** Addresses and links are secrets: of what goes wrong only the kind is told. */
  async #send({ id, url, secret, links, origin }: Webhook, delivery: Delivery): Promise<Answer> {
    const identity = this.#surroundings.identity();
    const { SECRETS_KEY, PUBLIC_URL } = this.#env;
    try {
      const key = await unseal(SECRETS_KEY, sealName(id), secret);
      const here = PUBLIC_URL ? new URL(PUBLIC_URL).origin : origin;
      const body =
        links && identity
          ? await withAnswerLinks(this.#env, here, identity, id, delivery.body)
          : delivery.body;
      return await post(url, key, delivery.id, body);
    } catch (error) {
      const reason = error instanceof Error ? error.name : "unknown";
      console.warn("webhook had no answer", { ...identity, webhook: id, message: delivery.id, reason });
      return NO_ANSWER;
    }
  }

  #settle(webhook: Webhook, delivery: Delivery, { status, retryAfterMs }: Answer): void {
    const now = Date.now();
    if (status !== null && status >= 200 && status < 300) return this.#store.delivered(delivery, status, now);
    if (status === GONE) {
      this.remove(webhook.id);
      return this.#note({ kind: "webhook.deleted", detail: { webhook: webhook.id, reason: "410 Gone" } });
    }
    const next = retryAt(delivery.attempts + 1, now, Math.random(), retryAfterMs) ?? null;
    this.#store.failed(delivery, status, now, next);
    if (next === null && this.#store.noteFailing(webhook.id))
      this.#note({ kind: "webhook.failed", detail: { webhook: webhook.id, message: delivery.id, status } });
  }

  #note(act: Pick<Act, "kind" | "detail">): void {
    const identity = this.#surroundings.identity();
    if (!identity) return;
    const { tenant, workspace } = identity;
    this.#ctx.waitUntil(audit(this.#env, tenant, { ...act, subject: "gateway", workspace }));
  }
}

/** By which a receiver says that it wants no more. */
const GONE = 410;

/** No secret of a workspace can have such a name. */
function sealName(id: string): string {
  return `webhook:${id}`;
}
