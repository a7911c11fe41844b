/** A UUID that follows from the text: equal texts give equal ids, and nobody without the secret can compute an id. */
export async function derivedUuid(secret: string, text: string): Promise<string> {
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encode(secret), hmac, false, ["sign"]);
  return uuidOf(await crypto.subtle.sign(hmac, key, encode(text)));
}

/** A UUID that anybody can compute who knows the text. */
export async function publicUuid(text: string): Promise<string> {
  return uuidOf(await crypto.subtle.digest("SHA-256", encode(text)));
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** A UUID of version 8 with the first bits of a digest. */
function uuidOf(digest: ArrayBuffer): string {
  const bytes = new Uint8Array(digest);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = [...bytes.subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
