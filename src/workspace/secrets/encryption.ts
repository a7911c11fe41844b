import { CompactEncrypt, compactDecrypt, decodeProtectedHeader, errors } from "jose";
import { encryptionKeys, rootBytes, rootKeys, type SecretsVars } from "../../auth/derived-keys.ts";
import type { WorkspaceIdentity } from "../store.ts";

/**
 * Encryption at rest, under keys that are not in the storage. The header of an encrypted value names its key and its
 * place: tenant, workspace and name. The header is authenticated, so a value cannot be moved to another place.
 */
export class Encryption {
  readonly #vars: SecretsVars;
  readonly #identity: () => WorkspaceIdentity | undefined;

  constructor(vars: SecretsVars, identity: () => WorkspaceIdentity | undefined) {
    this.#vars = vars;
    this.#identity = identity;
  }

  /** Undefined: this gateway has no SECRETS_KEY. */
  async encrypt(name: string, value: string): Promise<string | undefined> {
    const [newest] = await encryptionKeys(this.#vars, LABEL);
    if (!newest) return undefined;
    return new CompactEncrypt(new TextEncoder().encode(value))
      .setProtectedHeader({ alg: "dir", enc: "A256GCM", kid: newest.id, sub: this.#placeOf(name) })
      .encrypt(newest.key);
  }

  /**
   * The value in clear text. A value under a previous key, or in the form before keys had ids, is encrypted again and
   * passed to `renew`. Throws if the value's key is not known or the value belongs to another place.
   */
  async decrypt(name: string, encrypted: string, renew: (encrypted: string) => void): Promise<string> {
    const keys = await encryptionKeys(this.#vars, LABEL);
    if (keys.length === 0) throw new Error("SECRETS_KEY is not set");
    const { kid } = decodeProtectedHeader(encrypted);
    if (kid === undefined) {
      const value = await this.#decryptEarlierForm(name, encrypted);
      await this.#renew(name, value, renew);
      return value;
    }
    const key = keys.find(({ id }) => id === kid);
    if (!key) throw new Error("the key of the value is not among SECRETS_KEY and SECRETS_KEY_PREVIOUS");
    const { plaintext, protectedHeader } = await compactDecrypt(encrypted, key.key);
    if (protectedHeader.sub !== this.#placeOf(name)) throw new Error("the value belongs to another place");
    const value = new TextDecoder().decode(plaintext);
    if (key !== keys[0]) await this.#renew(name, value, renew);
    return value;
  }

  /** Earlier builds encrypted under SECRETS_KEY itself and bound values to their names alone. */
  async #decryptEarlierForm(name: string, encrypted: string): Promise<string> {
    for (const root of rootKeys(this.#vars)) {
      try {
        const { plaintext, protectedHeader } = await compactDecrypt(encrypted, rootBytes(root));
        if (protectedHeader.sub !== name) throw new Error("the value was encrypted for another name");
        return new TextDecoder().decode(plaintext);
      } catch (error) {
        if (!(error instanceof errors.JWEDecryptionFailed)) throw error;
      }
    }
    throw new Error("the value was encrypted under an unknown key");
  }

  async #renew(name: string, value: string, renew: (encrypted: string) => void): Promise<void> {
    const renewed = await this.encrypt(name, value);
    if (renewed !== undefined) renew(renewed);
  }

  #placeOf(name: string): string {
    const identity = this.#identity();
    // A value without a place could be read in every workspace that has none.
    if (!identity) throw new Error("the workspace has no identity yet");
    const { tenant, workspace } = identity;
    return JSON.stringify([tenant, workspace, name]);
  }
}

const LABEL = "acp-edge/workspace-secret";
