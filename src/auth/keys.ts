import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import { LIMITS } from "../protocol/limits.ts";

/** Finds the key a token says it was signed with. */
export type KeySet = { find: JWTVerifyGetKey };

/** The issuer does not answer, and nobody here knows its keys. */
export class KeysUnavailable extends Error {}

export function inlineKeys(jwks: unknown): KeySet {
  return { find: createLocalJWKSet(jwks as JSONWebKeySet) };
}

/**
 * The keys an issuer publishes. They are asked for again when they have become old, and when a token names one
 * that is not among them; as long as the issuer does not answer, those known stay good. (jose's own remote set
 * forgets what it knows when that is old and the issuer is away.)
 */
export class RemoteKeys implements KeySet {
  readonly #url: URL;
  #known: JWTVerifyGetKey | undefined;
  #loadedAt = 0;
  /** Not to be asked again before this: whoever sends us strange tokens shall not make us call. */
  #nextTry = 0;

  constructor(url: URL) {
    this.#url = url;
  }

  readonly find: JWTVerifyGetKey = async (header, token) => {
    if (!this.#known || Date.now() >= this.#loadedAt + LIMITS.jwksMaxAgeMs) await this.#load();
    if (!this.#known) throw new KeysUnavailable(`The keys at ${this.#url.origin} cannot be had`);
    try {
      return await this.#known(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !(await this.#load())) throw error;
      return this.#known(header, token);
    }
  };

  /**
   * False: it was not the time to ask, or there was no answer. Requests do not wait for each other's: a Worker
   * cannot wait for what another request has begun.
   */
  async #load(): Promise<boolean> {
    if (Date.now() < this.#nextTry) return false;
    try {
      const jwks = await fetchKeys(this.#url);
      this.#known = createLocalJWKSet(jwks);
      this.#loadedAt = Date.now();
      this.#nextTry = this.#loadedAt + LIMITS.jwksCooldownMs;
      return true;
    } catch (error) {
      this.#nextTry = Date.now() + LIMITS.jwksRetryMs;
      console.error("keys of an issuer could not be fetched", {
        issuer: this.#url.origin,
        error: String(error),
        goesOnWithOld: this.#known !== undefined,
      });
      return false;
    }
  }
}

async function fetchKeys(url: URL): Promise<JSONWebKeySet> {
  const response = await fetch(url, {
    headers: { Accept: "application/json, application/jwk-set+json" },
    redirect: "manual",
    signal: AbortSignal.timeout(LIMITS.jwksTimeoutMs),
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`HTTP ${response.status}`);
  }
  return response.json();
}
