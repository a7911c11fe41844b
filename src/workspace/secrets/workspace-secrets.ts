import type { Result } from "../../protocol/refusal.ts";
import type { SecretInfo } from "../../protocol/rest.ts";
import type { AgentOffers } from "../agents/offers.ts";
import { type HostSockets, sendControl } from "../hosts/sockets.ts";
import type { WorkspaceIdentity, WorkspaceStore } from "../store.ts";
import { Encryption } from "./encryption.ts";
import { SecretStore } from "./secret-store.ts";

type Parts = {
  ctx: DurableObjectState;
  env: Env;
  store: WorkspaceStore;
  offers: AgentOffers;
  sockets: HostSockets;
};

/** The secrets of a workspace, and the hosts that get them. */
export class WorkspaceSecrets {
  readonly #parts: Parts;
  readonly #secrets: SecretStore;

  constructor(parts: Parts) {
    const { ctx, env, store } = parts;
    this.#parts = parts;
    this.#secrets = new SecretStore(ctx.storage.sql, store, new Encryption(env, () => store.identity()));
  }

  /** Lists the secrets, and encrypts those again whose key was replaced: listing them all completes a rotation. */
  async list(): Promise<SecretInfo[]> {
    const secrets = this.#secrets.list();
    if (secrets.length > 0) await this.decrypt();
    return secrets;
  }

  async put(identity: WorkspaceIdentity, name: string, value: string): Promise<Result<undefined>> {
    this.#parts.store.create(identity);
    const result = await this.#secrets.put(name, value);
    if (result.ok) await this.#send();
    return result;
  }

  async remove(name: string): Promise<Result<undefined>> {
    const result = this.#secrets.remove(name);
    if (result.ok) await this.#send();
    return result;
  }

  async #send(): Promise<void> {
    const { offers, sockets } = this.#parts;
    offers.resetAvailability();
    const values = await this.decrypt();
    for (const { ws } of sockets.all()) sendControl(ws, { t: "secrets", values });
  }

  /**
   * Blocks all other events meanwhile: the reports of a host must not overtake its hello, and an older list of
   * secrets must not overtake a newer one.
   */
  decrypt(): Promise<Record<string, string>> {
    return this.#parts.ctx.blockConcurrencyWhile(() => this.#secrets.decryptAll());
  }
}
