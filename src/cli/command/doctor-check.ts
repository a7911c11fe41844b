import type { ExitCode } from "../cli-error.ts";

/** The finding of one step, with a hint for the user. */
export type Check =
  | { status: "ok" | "warning"; detail: string; hint?: string }
  | { status: "failed"; detail: string; hint?: string; code: ExitCode };

export function failedCheck(detail: string, code: ExitCode, hint?: string): Check {
  return { status: "failed", detail, code, ...(hint !== undefined && { hint }) };
}
