import { ExtensionMethod } from "../../protocol/extensions.ts";
import { isFault, readFrame } from "../../protocol/frame.ts";

/** When the token expires, if a line says so. Such a line is for this command, not for its editor. */
export function tokenExpiry(line: string): number | undefined {
  if (!line.includes(ExtensionMethod.tokenExpiring)) return undefined;
  const frame = readFrame(line);
  if (isFault(frame) || frame.kind !== "notification" || frame.method !== ExtensionMethod.tokenExpiring)
    return undefined;
  const { expiresAt } = (frame.value.params ?? {}) as { expiresAt?: unknown };
  const at = typeof expiresAt === "string" ? Date.parse(expiresAt) : Number.NaN;
  // Whenever it is, it is soon.
  return Number.isNaN(at) ? Date.now() : at;
}
