import type { RequestPermissionRequest } from "@agentclientprotocol/sdk";
import { confirm, isCancel, select } from "@clack/prompts";
import { permissionDetails } from "../../protocol/permission-details.ts";
import { isolate, visibleLine } from "../../protocol/visible-text.ts";
import { stderr } from "./output.ts";
import { permissionText } from "./permission-text.ts";

/** The user pressed Ctrl-C instead of answering. */
export const INTERRUPTED = Symbol("interrupt");

/** The user did not allow the request, and the agent offers no option to say so. */
export const DECLINED = Symbol("declined");

/** The user's answer. Undefined if the question was withdrawn because another client answered first. */
export type Answer = string | typeof INTERRUPTED | typeof DECLINED | undefined;

/**
 * Shows the whole request and asks the user on the terminal. `announced` is the tool call as the agent has described
 * it before. Enter alone never allows anything.
 */
export async function promptForPermission(
  { toolCall, options }: RequestPermissionRequest,
  announced: unknown,
  withdrawn: AbortSignal,
): Promise<Answer> {
  const details = permissionDetails(toolCall, announced);
  process.stderr.write(`\n${permissionText(details, stderr)}\n`);
  const refusal = options.find(({ kind }) => kind === "reject_once") ?? options.find(isRefusal);
  const answer = await select<string | typeof DECLINED>({
    message: "Does the agent have your permission?",
    options: [
      ...(refusal ? [] : [{ value: DECLINED, label: "No" } as const]),
      ...options.map(({ optionId, name, kind }) => ({
        value: optionId,
        label: isolate(visibleLine(name)),
        hint: visibleLine(kind.replace("_", " ")),
      })),
    ],
    initialValue: refusal?.optionId ?? DECLINED,
    output: process.stderr,
    signal: withdrawn,
  });
  if (withdrawn.aborted) return undefined;
  return isCancel(answer) ? INTERRUPTED : answer;
}

function isRefusal({ kind }: { kind: string }): boolean {
  return kind.startsWith("reject");
}

/** Asks for a plain yes; Enter means no. */
export async function confirmAllowing(message: string): Promise<boolean> {
  const answer = await confirm({ message, initialValue: false, output: process.stderr });
  return !isCancel(answer) && answer;
}
