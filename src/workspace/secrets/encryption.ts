import { base64url, CompactEncrypt, compactDecrypt } from "jose";

/** Encryption at rest, under a key that is not in the storage: 32 bytes in base64url. */

/** Undefined: there is no key. */
export async function encrypt(
  key: string | undefined,
  name: string,
  value: string,
): Promise<string | undefined> {
  if (!key) return undefined;
  return (
    new CompactEncrypt(new TextEncoder().encode(value))
      // The header is authenticated, so an encrypted value cannot be moved to another name.
      .setProtectedHeader({ alg: "dir", enc: "A256GCM", sub: name })
      .encrypt(base64url.decode(key))
  );
}

/** Throws if there is no key, or if the value was encrypted under another key or for another name. */
export async function decrypt(key: string | undefined, name: string, encrypted: string): Promise<string> {
  if (!key) throw new Error("SECRETS_KEY is not set");
  const { plaintext, protectedHeader } = await compactDecrypt(encrypted, base64url.decode(key));
  if (protectedHeader.sub !== name) throw new Error("the value was encrypted for another name");
  return new TextDecoder().decode(plaintext);
}
