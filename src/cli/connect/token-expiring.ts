import { isFault, readFrame } from "../../protocol/frame.ts";

/** What a gateway says some time before the token of a socket expires. It is for us, and not for an editor. */
const TOKEN_EXPIRING = "_acp-edge/token_expiring";

/** When the token expires, if that is what a line says. */
export function tokenExpiry(line: string): number | undefined {
  if (!line.includes(TOKEN_EXPIRING)) return undefined;
  const frame = readFrame(line);
  if (isFault(frame) || frame.kind !== "notification" || frame.method !== TOKEN_EXPIRING) return undefined;
  const { expiresAt } = (frame.value.params ?? {}) as { expiresAt?: unknown };
  const at = typeof expiresAt === "string" ? Date.parse(expiresAt) : Number.NaN;
  // Whenever it is, it is soon.
  return Number.isNaN(at) ? Date.now() : at;
}
