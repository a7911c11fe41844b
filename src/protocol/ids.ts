/**
 * How clients see the ids of an agent's requests: the session and the request's place in its log. The id
 * itself says where the answer belongs, so there is no table to keep, to lose or to mix up.
 */
export function clientRequestId(sessionId: string, seq: number): string {
  return `${sessionId}:${seq}`;
}

/** The two halves of such an id. */
export type AgentRequest = { sessionId: string; seq: number };

export function parseClientRequestId(id: unknown): AgentRequest | undefined {
  const match = typeof id === "string" ? /^([0-9a-f-]{36}):(\d{1,15})$/.exec(id) : null;
  return match ? { sessionId: match[1] as string, seq: Number(match[2]) } : undefined;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The same UUID for the same text; nobody can guess it who does not know the text. */
export async function derivedUuid(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  digest[6] = ((digest[6] as number) & 0x0f) | 0x80;
  digest[8] = ((digest[8] as number) & 0x3f) | 0x80;
  const hex = [...digest.subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export function isUuid(id: string): boolean {
  return UUID.test(id);
}
