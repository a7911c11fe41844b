import { base64url, CompactEncrypt, compactDecrypt } from "jose";

/** What a workspace keeps for itself alone, encrypted under a key that is not in the storage. */

/** Undefined: there is no key. `key` is 32 bytes in base64url. */
export async function seal(
  key: string | undefined,
  name: string,
  value: string,
): Promise<string | undefined> {
  if (!key) return undefined;
  return (
    new CompactEncrypt(new TextEncoder().encode(value))
      // The name is in the header, which is authenticated: a value cannot be moved to another one.
      .setProtectedHeader({ alg: "dir", enc: "A256GCM", sub: name })
      .encrypt(base64url.decode(key))
  );
}

/** Throws if there is no key, or another one, or if it was sealed under another name. */
export async function unseal(key: string | undefined, name: string, sealed: string): Promise<string> {
  if (!key) throw new Error("SECRETS_KEY is not set");
  const { plaintext, protectedHeader } = await compactDecrypt(sealed, base64url.decode(key));
  if (protectedHeader.sub !== name) throw new Error("it belongs to another name");
  return new TextDecoder().decode(plaintext);
}
