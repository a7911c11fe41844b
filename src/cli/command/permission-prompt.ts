import type { RequestPermissionRequest } from "@agentclientprotocol/sdk";
import { isCancel, select } from "@clack/prompts";
import { brief } from "../text-format.ts";

/** The user pressed Ctrl-C instead of answering. */
export const INTERRUPTED = Symbol("interrupt");

/** Asks the user on the terminal. Undefined if the question was withdrawn because another client answered first. */
export async function promptForPermission(
  { toolCall, options }: RequestPermissionRequest,
  withdrawn: AbortSignal,
): Promise<string | typeof INTERRUPTED | undefined> {
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
  return isCancel(answer) ? INTERRUPTED : answer;
}
