import type { RequestPermissionRequest } from "@agentclientprotocol/sdk";
import { isCancel, select } from "@clack/prompts";
import { brief } from "../terminal.ts";

/** The person pressed Ctrl-C instead of an answer. */
export const INTERRUPT = Symbol("interrupt");

/** Asks on the terminal; undefined when somebody else answered first and the question was withdrawn. */
export async function askPermission(
  { toolCall, options }: RequestPermissionRequest,
  withdrawn: AbortSignal,
): Promise<string | typeof INTERRUPT | undefined> {
  const answer = await select({
    message: `Permission: ${brief(toolCall.title ?? toolCall.toolCallId, 100)}`,
    options: options.map(({ optionId, name, kind }) => ({
      value: optionId,
      label: brief(name),
      hint: kind.replace("_", " "),
    })),
    output: process.stderr,
    signal: withdrawn,
  });
  if (withdrawn.aborted) return undefined;
  return isCancel(answer) ? INTERRUPT : answer;
}
