import { ExtensionMethod } from "../../protocol/extensions.ts";
import { isFault, paramsOf, readFrame } from "../../protocol/frame.ts";

/** When the token expires, if a line announces that. Such a line is meant for this command, not for its editor. */
export function tokenExpiry(line: string): number | undefined {
  if (!line.includes(ExtensionMethod.tokenExpiring)) return undefined;
  const frame = readFrame(line);
  if (isFault(frame) || frame.kind !== "notification" || frame.method !== ExtensionMethod.tokenExpiring)
    return undefined;
  const { expiresAt } = paramsOf(frame);
  const at = typeof expiresAt === "string" ? Date.parse(expiresAt) : Number.NaN;
  // A warning without a readable time still means that the token expires soon.
  return Number.isNaN(at) ? Date.now() : at;
}
