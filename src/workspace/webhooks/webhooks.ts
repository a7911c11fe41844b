import type { Deadlines } from "../../durable/deadlines.ts";
import { newId } from "../../durable/new-id.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Maker } from "../../protocol/maker.ts";
import { accepted, type Refusal, type Result, refused } from "../../protocol/refusal.ts";
import type { CreatedWebhook, WebhookInfo } from "../../protocol/rest.ts";
import type { HandedMessage, Ping, WebhookMessageType } from "../../protocol/webhook-messages.ts";
import { readWebhookTargets, webhookTargetRefusal } from "../../protocol/webhook-targets.ts";
import { type Act, audit } from "../../tenant/client/audit.ts";
import type { WorkspaceCallbacks } from "../callbacks.ts";
import { Encryption } from "../secrets/encryption.ts";
import { NO_SECRETS_KEY } from "../secrets/secret-store.ts";
import type { WorkspaceStore } from "../store.ts";
import { withAnswerLinks } from "./links.ts";
import { MakerChecks } from "./maker-checks.ts";
import { makeSecret, NO_RESPONSE, post, type WebhookResponse } from "./request.ts";
import { admitted, retryAt } from "./retry-schedule.ts";
import { type Delivery, type Webhook, WebhookStore } from "./store.ts";

export type WebhookOrder = Pick<Webhook, "url" | "events" | "links" | "origin">;

type Parts = {
  ctx: DurableObjectState;
  env: Env;
  limits: Limits;
  store: Pick<WorkspaceStore, "exists" | "identity">;
  timers: Pick<Deadlines<"webhooks">, "set" | "clear">;
  callbacks: Pick<WorkspaceCallbacks, "wantedWebhookTypesChanged">;
};

/**
 * Delivers messages to webhooks. A message is a row until its receiver has it or it is given up. The deadline for the
 * next attempt is set before anything is sent, so an attempt that an eviction interrupts is made again.
 */
export class Webhooks {
  readonly #parts: Parts;
  readonly #webhooks: WebhookStore;
  readonly #makers: MakerChecks;
  readonly #encryption: Encryption;
  /** Webhooks that are being sent a message, one each. They are calls in progress: nothing is restored. */
  readonly #sending = new Map<string, { isFailing: boolean }>();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#webhooks = new WebhookStore(parts.ctx.storage.sql, parts.store, parts.limits);
    const { ctx, env, store } = parts;
    this.#makers = new MakerChecks({ ctx, env, store, webhooks: this.#webhooks });
    this.#encryption = new Encryption(parts.env, () => parts.store.identity());
  }

  // ---- webhooks ---------------------------------------------------------------------------------------

  list(): WebhookInfo[] {
    return this.#webhooks.list();
  }

  has(id: string): boolean {
    return this.#webhooks.has(id);
  }

  /** Encrypts the signing secrets again whose key was replaced. */
  async renewSecrets(): Promise<void> {
    for (const webhook of this.#webhooks.all()) {
      await this.#secretOf(webhook).catch((error: unknown) =>
        console.error("secret of a webhook cannot be read", { webhook: webhook.id, error: String(error) }),
      );
    }
  }

  #secretOf({ id, secret }: Pick<Webhook, "id" | "secret">): Promise<string> {
    return this.#encryption.decrypt(encryptionName(id), secret, (renewed) =>
      this.#webhooks.replaceSecret(id, secret, renewed),
    );
  }

  /** Whether the webhook's messages are delivered, and the links in them work. */
  isActive(id: string): boolean {
    return this.#webhooks.find(id)?.pausedReason === null;
  }

  /** The types of messages that at least one webhook wants. */
  wanted(): WebhookMessageType[] {
    return this.#webhooks.wanted();
  }

  async create(order: WebhookOrder, maker: Maker): Promise<Result<CreatedWebhook>> {
    const { limits } = this.#parts;
    const id = newId("wh");
    const secret = makeSecret();
    const encrypted = await this.#encryption.encrypt(encryptionName(id), secret);
    if (encrypted === undefined) return refused(NO_SECRETS_KEY);
    // The tenant knows of the webhook first: a revocation must find it from the beginning.
    const registered = await this.#makers.register(id, maker);
    if (!registered.ok) return registered;
    if (this.#webhooks.all().length >= limits.webhooksPerWorkspace) {
      this.#makers.unregister(id);
      return refused({ reason: "conflict", message: "The workspace has too many webhooks" });
    }
    this.#change(() => this.#webhooks.add({ id, ...order, secret: encrypted, createdAt: Date.now(), maker }));
    await this.#makers.checkNew();
    const created = this.list().find((one) => one.id === id);
    return created ? accepted({ ...created, secret }) : refused(UNKNOWN);
  }

  remove(id: string): Result<undefined> {
    if (!this.#change(() => this.#webhooks.remove(id))) return refused(UNKNOWN);
    this.#makers.unregister(id);
    return accepted();
  }

  /** Makes another administrator the webhook's maker. A paused webhook goes on. */
  async adopt(id: string, maker: Maker): Promise<Result<WebhookInfo>> {
    if (!this.has(id)) return refused(UNKNOWN);
    const registered = await this.#makers.register(id, maker);
    if (!registered.ok) return registered;
    this.#webhooks.setMaker(id, maker);
    await this.#makers.checkNew();
    this.deliver();
    const adopted = this.list().find((webhook) => webhook.id === id);
    return adopted ? accepted(adopted) : refused(UNKNOWN);
  }

  // ---- makers -----------------------------------------------------------------------------------------

  /** A revocation of a maker was made or has ended. Returns the webhooks' ids. */
  checkMakers(): Promise<string[]> {
    return this.#makers.check();
  }

  #change<T>(change: () => T): T {
    const before = this.wanted();
    const result = change();
    const wanted = this.wanted();
    if (wanted.join() !== before.join()) this.#parts.callbacks.wantedWebhookTypesChanged(wanted);
    return result;
  }

  // ---- messages ---------------------------------------------------------------------------------------

  /** Takes messages of a session. A message that was handed over before is ignored. */
  take(messages: readonly HandedMessage[]): void {
    const webhooks = this.#webhooks.all();
    if (webhooks.length === 0) return;
    const now = Date.now();
    for (const { id, type, body, lost } of messages) {
      if (!this.#webhooks.isNew(id)) continue;
      for (const webhook of webhooks.filter(({ events }) => events.includes(type))) {
        this.#webhooks.enqueue(webhook.id, id, body, now);
        if (lost > 0) this.#webhooks.countDropped(webhook.id, lost);
      }
    }
    this.deliver();
  }

  /** Sends a test message. */
  ping(webhook: string): Result<undefined> {
    const identity = this.#parts.store.identity();
    if (!identity || !this.has(webhook)) return refused(UNKNOWN);
    if (!this.isActive(webhook)) return refused(PAUSED);
    const timestamp = new Date().toISOString();
    const message: Ping = { type: "ping", timestamp, data: { workspace: identity.workspace, webhook } };
    this.#webhooks.enqueue(webhook, newId("msg"), JSON.stringify(message), Date.now());
    this.deliver();
    return accepted();
  }

  /** Begins the deliveries that are due and for which there is room. Each delivery that ends calls this again. */
  deliver(): void {
    const now = Date.now();
    const waiting = this.#webhooks.all().flatMap((webhook) => {
      const delivery = webhook.pausedReason === null ? this.#webhooks.next(webhook.id) : undefined;
      return delivery ? { webhook, delivery, isFailing: webhook.failingSince !== null } : [];
    });
    const due = waiting
      .filter(({ webhook, delivery }) => delivery.next <= now && !this.#sending.has(webhook.id))
      .sort((a, b) => a.delivery.next - b.delivery.next);
    const begun = admitted(due, [...this.#sending.values()], this.#parts.limits.webhooksAtOnce);
    for (const { webhook, isFailing } of begun) this.#sending.set(webhook.id, { isFailing });
    this.#setTimer(waiting.map(({ delivery }) => delivery.next).filter((at) => at > now));
    for (const { webhook, delivery } of begun) this.#parts.ctx.waitUntil(this.#attempt(webhook, delivery));
  }

  /** Besides the later deliveries, an eviction during a delivery needs a deadline to continue. */
  #setTimer(later: readonly number[]): void {
    const { timers, limits } = this.#parts;
    const recovery = this.#sending.size > 0 ? [Date.now() + limits.webhookTimeoutMs] : [];
    const times = [...later, ...recovery];
    if (times.length > 0) timers.set("webhooks", Math.min(...times));
    else timers.clear("webhooks");
  }

  async #attempt(webhook: Webhook, delivery: Delivery): Promise<void> {
    try {
      const result = await this.#send(webhook, delivery);
      if (result !== "paused" && this.has(webhook.id)) this.#settle(webhook, delivery, result);
    } finally {
      this.#sending.delete(webhook.id);
      this.deliver();
    }
  }

  /** Addresses and links are secrets, so only the name of an error is logged. */
  async #send(webhook: Webhook, delivery: Delivery): Promise<WebhookResponse | "paused"> {
    const { id, url, links, origin, maker } = webhook;
    const { env, limits, store } = this.#parts;
    const identity = store.identity();
    try {
      await this.checkMakers();
      if (!this.isActive(id)) return "paused";
      // The webhook may be older than the rule, or than its last change.
      if (webhookTargetRefusal(url, readWebhookTargets(env.WEBHOOK_TARGETS)) !== undefined)
        throw new RefusedTarget();
      const key = await this.#secretOf(webhook);
      const here = env.PUBLIC_URL ? new URL(env.PUBLIC_URL).origin : origin;
      const body =
        links && identity && maker
          ? await withAnswerLinks(env, here, identity, { id, maker }, delivery.body, limits)
          : delivery.body;
      return await post({ url, secret: key }, { id: delivery.id, body }, limits.webhookTimeoutMs);
    } catch (error) {
      const reason = error instanceof Error ? error.name : "unknown";
      console.warn("webhook did not respond", { ...identity, webhook: id, message: delivery.id, reason });
      return NO_RESPONSE;
    }
  }

  #settle(webhook: Webhook, delivery: Delivery, { status, retryAfterMs }: WebhookResponse): void {
    const now = Date.now();
    if (status !== null && status >= 200 && status < 300)
      return this.#webhooks.markDelivered(delivery, status, now);
    if (status === GONE) {
      this.remove(webhook.id);
      return this.#audit({ kind: "webhook.deleted", detail: { webhook: webhook.id, reason: "410 Gone" } });
    }
    const attempts = delivery.attempts + 1;
    const next = retryAt(attempts, now, Math.random(), retryAfterMs, this.#parts.limits) ?? null;
    this.#webhooks.markFailed(delivery, status, now, next);
    if (next === null && this.#webhooks.takeFailingAudit(webhook.id))
      this.#audit({ kind: "webhook.failed", detail: { webhook: webhook.id, message: delivery.id, status } });
  }

  #audit(act: Pick<Act, "kind" | "detail">): void {
    const { ctx, env, store } = this.#parts;
    const identity = store.identity();
    if (!identity) return;
    const { tenant, workspace } = identity;
    ctx.waitUntil(audit(env, tenant, { ...act, subject: "gateway", workspace }));
  }
}

/** No message is sent to the webhook's address, because the operator does not allow it. */
class RefusedTarget extends Error {
  override name = "RefusedTarget";
}

const PAUSED: Refusal = {
  reason: "conflict",
  message: "The webhook pauses because its maker is revoked or unknown: adopt it first",
};

const UNKNOWN: Refusal = { reason: "not-found", message: "Unknown webhook" };

/** The status by which a receiver unsubscribes. */
const GONE = 410;

/** No secret of a workspace can have such a name. */
function encryptionName(id: string): string {
  return `webhook:${id}`;
}
