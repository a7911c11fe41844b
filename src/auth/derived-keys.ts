import { base64url } from "jose";

/**
 * The root keys of a deployment: each is 32 bytes in base64url. The previous keys, separated by spaces, are those that
 * SECRETS_KEY replaces: nothing new is made under them, and what was made under them stays valid.
 */
export type SecretsVars = {
  readonly SECRETS_KEY?: string | undefined;
  readonly SECRETS_KEY_PREVIOUS?: string | undefined;
};

/** A root key is not 32 bytes in base64url. */
export class SecretsKeyError extends Error {}

/**
 * Keys that sign texts (HMAC-SHA-256) for one purpose, newest first. The first key signs; a text is valid that any key
 * has signed. Keys with different labels are independent: no use of SECRETS_KEY can produce values for another use.
 * Empty when this gateway has no SECRETS_KEY.
 */
export function signingKeys(vars: SecretsVars, label: string): Promise<CryptoKey[]> {
  return Promise.all(rootKeys(vars).map((root) => derive(root, label, HMAC)));
}

/** A key that encrypts values for one purpose, and its id, by which the key of an encrypted value is found again. */
export type EncryptionKey = { readonly id: string; readonly key: CryptoKey };

/** Keys that encrypt (AES-256-GCM) for one purpose, newest first. The first key encrypts. Empty without SECRETS_KEY. */
export function encryptionKeys(vars: SecretsVars, label: string): Promise<EncryptionKey[]> {
  return Promise.all(
    rootKeys(vars).map(async (root) => ({ id: await keyId(root), key: await derive(root, label, AES) })),
  );
}

/** The root keys themselves, newest first. */
export function rootKeys({ SECRETS_KEY, SECRETS_KEY_PREVIOUS = "" }: SecretsVars): string[] {
  if (!SECRETS_KEY) return [];
  return [SECRETS_KEY, ...SECRETS_KEY_PREVIOUS.split(/\s+/).filter((key) => key !== "")];
}

/** The bytes of a root key. The error does not contain the key. */
export function rootBytes(root: string): Uint8Array<ArrayBuffer> {
  const bytes = decoded(root);
  if (bytes?.length === KEY_BYTES) return bytes;
  throw new SecretsKeyError(
    `SECRETS_KEY and SECRETS_KEY_PREVIOUS take keys of ${KEY_BYTES} bytes in base64url`,
  );
}

function decoded(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return new Uint8Array(base64url.decode(text));
  } catch {
    return undefined;
  }
}

const KEY_BYTES = 32;
const HMAC = { algorithm: { name: "HMAC", hash: "SHA-256", length: 256 }, uses: ["sign", "verify"] } as const;
const AES = { algorithm: { name: "AES-GCM", length: 256 }, uses: ["encrypt", "decrypt"] } as const;

/** The derived keys of this isolate: a deployment has few root keys and few labels. */
const cache = new Map<string, CryptoKey>();

async function derive(root: string, label: string, { algorithm, uses }: typeof HMAC | typeof AES) {
  const name = JSON.stringify([root, label, algorithm.name]);
  const known = cache.get(name);
  if (known) return known;
  const key = await crypto.subtle.deriveKey(hkdf(label), await hkdfKey(root), algorithm, false, [...uses]);
  if (cache.size >= MAX_CACHED) cache.clear();
  cache.set(name, key);
  return key;
}

const MAX_CACHED = 100;

/** Identifies a root key without telling anything about it. */
async function keyId(root: string): Promise<string> {
  const bits = await crypto.subtle.deriveBits(hkdf("acp-edge/key-id"), await hkdfKey(root), 64);
  return base64url.encode(new Uint8Array(bits));
}

function hkdf(label: string) {
  return { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: new TextEncoder().encode(label) };
}

function hkdfKey(root: string): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", rootBytes(root), "HKDF", false, ["deriveKey", "deriveBits"]);
}
