import { isRecord, type JsonObject, recordOf, textOf } from "../../../protocol/json-value.ts";

/**
 * The convention by which agents show commands that they run themselves: `_meta` of a tool call announces a terminal
 * (`terminal_info`), has a piece of its output (`terminal_output`), or says how it ended (`terminal_exit`).
 */
export const TERMINAL_META: readonly string[] = ["terminal_info", "terminal_output", "terminal_exit"];

/** The part of a tool call's `_meta` that belongs to the convention. */
export type TerminalMeta = {
  readonly info?: { readonly id: string; readonly cwd: string | null };
  readonly output?: { readonly id: string; readonly data: string };
  readonly exit?: { readonly id: string; readonly code: number | null; readonly signal: string | null };
};

export function terminalMeta(toolCall: JsonObject): TerminalMeta {
  const { _meta } = toolCall;
  if (!isRecord(_meta)) return {};
  const [info, output, exit] = TERMINAL_META.map((name) => recordOf(_meta[name]));
  const [infoId, outputId, exitId] = [info, output, exit].map((part) => textOf(part?.terminal_id));
  const data = textOf(output?.data);
  return {
    ...(infoId !== undefined && { info: { id: infoId, cwd: textOf(info?.cwd) ?? null } }),
    ...(outputId !== undefined && data !== undefined && { output: { id: outputId, data } }),
    ...(exitId !== undefined && {
      exit: {
        id: exitId,
        code: typeof exit?.exit_code === "number" ? exit.exit_code : null,
        signal: textOf(exit?.signal) ?? null,
      },
    }),
  };
}

/** The ids of the terminals that the content of a tool call names. */
export function namedTerminals(content: unknown): string[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((item) => {
    const { type, terminalId } = recordOf(item);
    return type === "terminal" && typeof terminalId === "string" ? terminalId : [];
  });
}

export function isTerminalItem(item: unknown): boolean {
  return recordOf(item).type === "terminal";
}

/** The update by which clients that know the convention get a piece of output. */
export function outputUpdate(toolCallId: string, id: string, data: string): object {
  const _meta = { terminal_output: { terminal_id: id, data } };
  return { sessionUpdate: "tool_call_update", toolCallId, _meta };
}

/** The update by which they learn that the command has ended. */
export function exitUpdate(
  toolCallId: string,
  id: string,
  { code, signal }: { readonly code: number | null; readonly signal: string | null },
): object {
  const _meta = { terminal_exit: { terminal_id: id, exit_code: code, signal } };
  return { sessionUpdate: "tool_call_update", toolCallId, _meta };
}
