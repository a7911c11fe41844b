import type { ClientAbility } from "../../../protocol/client-abilities.ts";
import { type Frame, paramsOf, resultOf } from "../../../protocol/frame.ts";
import { filterAt, replaceAt } from "../../../protocol/json-edit.ts";
import { isRecord, recordOf } from "../../../protocol/json-value.ts";
import type { FrameEvent, Route } from "../events/event.ts";
import { isTerminalItem, TERMINAL_META } from "../state/terminal-meta.ts";

/**
 * The form in which a client gets a message. Agents are offered more than the least client can show, so a client gets
 * neither a kind of update nor a part of one that it did not offer to show. Whatever a plainer form needs to know of
 * earlier events, the gateway logs in a frame of its own.
 */

/** The receiver of a message: its abilities, and whether it has created the terminals that the message names. */
export type Receiver = { readonly abilities: readonly ClientAbility[]; readonly hasTerminals: boolean };

/** The message for this client, from the message for a client with all abilities; undefined if the client gets none. */
export function inClientForm(text: string, event: FrameEvent, receiver: Receiver): string | undefined {
  const { frame, route } = event;
  const { abilities } = receiver;
  if (route.having !== undefined && !abilities.includes(route.having)) return undefined;
  if (route.lacking !== undefined && abilities.includes(route.lacking)) return undefined;
  if (frame.kind === "response")
    return withoutToggles(text, ["result", "configOptions"], resultOf(frame).configOptions, abilities);
  if (frame.method === "session/request_permission")
    return withoutTerminals(text, ["params", "toolCall"], paramsOf(frame).toolCall, route, receiver);
  return frame.method === "session/update" ? updateForm(text, frame, route, receiver) : text;
}

function updateForm(text: string, frame: Frame, route: Route, receiver: Receiver): string | undefined {
  const update = recordOf(paramsOf(frame).update);
  const { abilities } = receiver;
  switch (update.sessionUpdate) {
    case "notice":
      return abilities.includes("notices") ? text : undefined;
    case "compaction_update":
    case "compaction_summary_chunk":
      return abilities.includes("compaction") ? text : undefined;
    case "plan_update":
    case "plan_removed":
      return abilities.includes("plan-operations") ? text : undefined;
    case "config_option_update":
      return withoutToggles(text, ["params", "update", "configOptions"], update.configOptions, abilities);
    case "tool_call":
    case "tool_call_update":
      if (!abilities.includes("terminal-output") && isOutputAlone(update)) return undefined;
      return withoutTerminals(text, ["params", "update"], update, route, receiver);
    default:
      return text;
  }
}

/** The settings of a session, as JSON text, for the answer to a client. */
export function setupInClientForm(setup: string, abilities: readonly ClientAbility[]): string {
  return abilities.includes("boolean-options") ? setup : filterAt(setup, ["configOptions"], isNoToggle);
}

/** Options without those of a type that the client does not know. */
function withoutToggles(
  text: string,
  path: readonly string[],
  options: unknown,
  abilities: readonly ClientAbility[],
): string {
  if (abilities.includes("boolean-options") || !Array.isArray(options) || options.every(isNoToggle))
    return text;
  return filterAt(text, path, isNoToggle);
}

function isNoToggle(option: unknown): boolean {
  return recordOf(option).type !== "boolean";
}

/**
 * The tool call as a client gets it that does not know the terminals in its content. If the gateway's frame with the
 * content comes before this one, this one must not change the content: null means so.
 */
function withoutTerminals(
  text: string,
  path: readonly string[],
  toolCall: unknown,
  { plain, terminalsOf }: Route,
  { abilities, hasTerminals }: Receiver,
): string {
  const { content } = recordOf(toolCall);
  if (!Array.isArray(content) || !content.some(isTerminalItem) || hasTerminals) return text;
  const isAnnounced = plain !== undefined && terminalsOf === undefined;
  if (isAnnounced && abilities.includes("terminal-output")) return text;
  const member = [...path, "content"];
  if (plain === "before") return replaceAt(text, member, "null");
  return filterAt(text, member, (item) => !isTerminalItem(item));
}

/** Whether an update says nothing but the output of a command, in the convention for it. */
function isOutputAlone({ sessionUpdate, toolCallId: _, _meta, ...more }: Readonly<Record<string, unknown>>) {
  if (sessionUpdate !== "tool_call_update" || Object.keys(more).length > 0 || !isRecord(_meta)) return false;
  const names = Object.keys(_meta);
  return names.length > 0 && names.every((name) => TERMINAL_META.includes(name));
}
