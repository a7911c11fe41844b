import { ExtensionMethod } from "../protocol/extensions.ts";
import type { Frame } from "../protocol/frame.ts";
import type { Amounts } from "../protocol/rpc.ts";

/**
 * The ways to pay for a message, in the order in which they are tried. A small message that cancels, answers or renews
 * may be paid from the reserve, so that a client without quota can still stop its agent.
 */
export function costOf(
  chars: number,
  frame: Frame | undefined,
  smallChars: number,
): readonly [Amounts, ...Amounts[]] {
  const isPrompt = frame?.method === "session/prompt";
  // Every message asks for the prompt quota as well, so that the first prompt need not wait for the subject's object.
  const cost = { chars, prompts: isPrompt ? 1 : 0 };
  const isEssential = frame && !isPrompt && (ANSWERS.has(frame.kind) || ESSENTIAL.has(frame.method ?? ""));
  return isEssential && chars <= smallChars ? [cost, { reserve: chars }] : [cost];
}

const ANSWERS: ReadonlySet<string> = new Set(["notification", "response"] satisfies Frame["kind"][]);

/** Requests that answer or end something in the dialects, and the request without which the connection ends. */
const ESSENTIAL: ReadonlySet<string> = new Set([
  "session/respond_to_permission",
  "session/cancel",
  ExtensionMethod.renewToken,
]);
