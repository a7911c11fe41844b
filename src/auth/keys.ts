import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import type { Limits } from "../protocol/limits.ts";

/** Finds the key that a token names in its header. */
export type KeySet = { find: JWTVerifyGetKey };

/** The issuer does not respond, and its keys were never fetched, or too long ago. */
export class KeysUnavailable extends Error {}

export function inlineKeys(jwks: unknown): KeySet {
  return { find: createLocalJWKSet(jwks as JSONWebKeySet) };
}

type FetchLimits = Pick<
  Limits,
  "jwksMaxAgeMs" | "jwksStaleMs" | "jwksCooldownMs" | "jwksRetryMs" | "jwksTimeoutMs"
>;

/**
 * The keys that an issuer publishes. They are fetched again when they reach their maximum age, and when a token names
 * an unknown key. While the issuer does not respond, the known keys stay valid for `jwksStaleMs`; jose's own remote key
 * set would forget them at once. They do not stay valid for ever: a key that the issuer has withdrawn must not be kept
 * alive by keeping the gateway from the issuer.
 */
export class RemoteKeys implements KeySet {
  readonly #url: URL;
  readonly #limits: FetchLimits;
  readonly #isRefused: (key: unknown) => boolean;
  #known: JWTVerifyGetKey | undefined;
  #loadedAt = 0;
  /** No fetch before this time: a stream of tokens with unknown keys must not become a stream of fetches. */
  #nextTry = 0;

  /** Keys that are refused do not count, whoever publishes them. */
  constructor(url: URL, limits: FetchLimits, isRefused: (key: unknown) => boolean = () => false) {
    this.#url = url;
    this.#limits = limits;
    this.#isRefused = isRefused;
  }

  readonly find: JWTVerifyGetKey = async (header, token) => {
    if (!this.#known || Date.now() >= this.#loadedAt + this.#limits.jwksMaxAgeMs) await this.#load();
    if (Date.now() >= this.#loadedAt + this.#limits.jwksStaleMs) this.#known = undefined;
    if (!this.#known) throw new KeysUnavailable(`The keys at ${this.#url.origin} are not available`);
    try {
      return await this.#known(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || !(await this.#load())) throw error;
      return this.#known(header, token);
    }
  };

  /**
   * Fetches the keys; false when it is too early or the fetch fails. Concurrent requests fetch separately, because a
   * Worker request cannot await another request's I/O.
   */
  async #load(): Promise<boolean> {
    if (Date.now() < this.#nextTry) return false;
    try {
      const { keys } = await fetchKeys(this.#url, this.#limits.jwksTimeoutMs);
      this.#known = createLocalJWKSet({ keys: keys.filter((key) => !this.#isRefused(key)) });
      this.#loadedAt = Date.now();
      this.#nextTry = this.#loadedAt + this.#limits.jwksCooldownMs;
      return true;
    } catch (error) {
      this.#nextTry = Date.now() + this.#limits.jwksRetryMs;
      console.error("keys of an issuer could not be fetched", {
        issuer: this.#url.origin,
        error: String(error),
        keepsOldKeys: this.#known !== undefined,
      });
      return false;
    }
  }
}

async function fetchKeys(url: URL, timeoutMs: number): Promise<JSONWebKeySet> {
  const response = await fetch(url, {
    headers: { Accept: "application/json, application/jwk-set+json" },
    redirect: "manual",
    signal: AbortSignal.timeout(timeoutMs),
  });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`HTTP ${response.status}`);
  }
  return response.json();
}
