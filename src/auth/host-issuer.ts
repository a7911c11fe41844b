import type { Scope } from "../protocol/caller.ts";
import { isRecord, type JsonObject } from "../protocol/json-value.ts";

/**
 * The gateway as the issuer of tokens for the hosts that it starts itself, in containers. The key is a secret of the
 * Worker, so the issuer may sign host tokens and nothing else, and the key belongs to no other issuer: who steals the key
 * gets no rights of people.
 */

/** The name and the audience of these tokens. Other issuers cannot have this name. */
export const HOST_ISSUER = "acp-edge:hosts";

export const HOST_ISSUER_SCOPES: readonly Scope[] = ["host"];

/** The public half of HOST_SIGNING_KEY; undefined if the text is no private key. */
export function publicHostKey(text: string): JsonObject | undefined {
  let key: unknown;
  try {
    key = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(key) || typeof key.kty !== "string" || typeof key.d !== "string") return undefined;
  const { d: _, p: _p, q: _q, dp: _dp, dq: _dq, qi: _qi, key_ops: _ops, ...rest } = key;
  return { alg: "EdDSA", ...rest };
}

/** Whether two keys are halves of one pair, whatever their names. */
export function isSameKey(one: JsonObject, other: JsonObject): boolean {
  return ["kty", "crv", "x", "y", "n", "e"].every((member) => one[member] === other[member]);
}
