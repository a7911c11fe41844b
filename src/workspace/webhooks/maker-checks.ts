import { callObject } from "../../durable/object-call.ts";
import { tenantObject } from "../../durable/objects.ts";
import type { Maker } from "../../protocol/maker.ts";
import type { Result } from "../../protocol/refusal.ts";
import type { WorkspaceIdentity, WorkspaceStore } from "../store.ts";
import type { WebhookStore } from "./store.ts";

type Parts = {
  ctx: DurableObjectState;
  env: Env;
  store: Pick<WorkspaceStore, "identity">;
  webhooks: WebhookStore;
};

/** The makers of the workspace's webhooks. The tenant knows them, so that a revocation of a maker pauses the webhooks. */
export class MakerChecks {
  readonly #parts: Parts;
  #lastCheck: Promise<unknown> = Promise.resolve();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Notes the maker with the tenant. Refuses a maker who is revoked. */
  async register(id: string, maker: Maker): Promise<Result<undefined>> {
    const { env, store } = this.#parts;
    const { tenant, workspace } = store.identity() as WorkspaceIdentity;
    return callObject(
      () => tenantObject(env, tenant),
      (object) => object.registerWebhook({ id, workspace, maker }),
    );
  }

  /** A registration that stays is forgotten when the tenant asks for the next check. */
  unregister(id: string): void {
    const { ctx, env, store } = this.#parts;
    const tenant = store.identity()?.tenant;
    if (tenant === undefined) return;
    const forgotten = callObject(
      () => tenantObject(env, tenant),
      (object) => object.unregisterWebhook(id),
    );
    ctx.waitUntil(
      forgotten.catch((error: unknown) =>
        console.warn("webhook not unregistered", { webhook: id, error: String(error) }),
      ),
    );
  }

  /**
   * Asks the tenant which makers are revoked: their webhooks pause, and those of makers who no longer are go on.
   * Returns the webhooks' ids. The checks run one after another, so the last answer counts.
   */
  check(): Promise<string[]> {
    const check = this.#lastCheck.then(() => this.#check());
    this.#lastCheck = check.catch(() => {});
    return check;
  }

  /**
   * Checks a webhook that has just got its maker: a revocation between registration and storage has missed the webhook.
   * A failure refuses nothing, because each delivery is checked again.
   */
  async checkNew(): Promise<void> {
    try {
      await this.check();
    } catch (error) {
      console.warn("makers of webhooks not checked", { error: String(error) });
    }
  }

  async #check(): Promise<string[]> {
    const { env, store, webhooks } = this.#parts;
    const made = webhooks.all().flatMap(({ id, maker }) => (maker === null ? [] : { id, maker }));
    const identity = store.identity();
    if (identity && made.length > 0) {
      const { tenant, workspace } = identity;
      const revoked = await callObject(
        () => tenantObject(env, tenant),
        (object) => object.checkWebhooks(workspace, made),
      );
      for (const [i, { id, maker }] of made.entries()) {
        const now = webhooks.find(id);
        // Somebody has adopted or removed the webhook meanwhile.
        if (!now || JSON.stringify(now.maker) !== JSON.stringify(maker)) continue;
        webhooks.setPause(id, revoked[i] === true ? "maker-revoked" : null);
      }
    }
    return webhooks.all().map(({ id }) => id);
  }
}
