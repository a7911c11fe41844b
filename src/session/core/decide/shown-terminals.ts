import { clip } from "../../../protocol/clipped-text.ts";
import { notification } from "../../../protocol/errors.ts";
import { paramsOf } from "../../../protocol/frame.ts";
import { type JsonObject, recordOf } from "../../../protocol/json-value.ts";
import type { Route } from "../events/event.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";
import {
  exitUpdate,
  isTerminalItem,
  namedTerminals,
  outputUpdate,
  terminalMeta,
} from "../state/terminal-meta.ts";
import {
  announcedBy,
  findTerminal,
  foldToolCallTerminals,
  type ShownTerminal,
  terminalsOf,
} from "../state/terminals.ts";
import { findToolCall, type ToolCall } from "../state/tool-calls.ts";
import type { Batch } from "./batch.ts";
import { plainContent } from "./plain-content.ts";

/**
 * Terminals in tool calls. A terminal is known to its server alone: an editor that is told of another one shows nothing,
 * or drops the tool call. So frames of the gateway announce a terminal to clients that know the convention for it, and
 * give all others the command and its output as text, at the latest when the tool call or the command ends.
 */

/** Records a tool call of the agent by `record`, which adds the agent's frame with the given route. */
export function recordToolCall(batch: Batch, toolCall: JsonObject, record: (route: Route) => number): number {
  const { state } = batch;
  const { toolCallId, content } = toolCall;
  const names = namedTerminals(content);
  if (typeof toolCallId !== "string" || !isAboutTerminals(batch, toolCall) || names.some(isTooLong))
    return record({});
  for (const id of new Set(names)) announce(batch, toolCall, id);
  const known = findToolCall(state.report, toolCallId);
  const shown = terminalsAfter(batch, toolCall);
  const owner = ownerOf(shown);
  // A `tool_call` cannot leave the content as it is, and before its first frame clients do not know the tool call.
  const isFollowed = toolCall.sessionUpdate === "tool_call" || !known;
  const isDue =
    isOutputDue(toolCall, shown) || (names.length > 0 && (isFollowed || isNews(known, content, shown)));
  const plain = isDue ? plainContent(content ?? contentOf(batch, known), shown) : undefined;
  const tellIt = () => plain && tellPlain(batch, toolCallId, plain, shown);
  const route: Route = {
    ...announcement(shownIn(state.terminals ?? [], toolCall)),
    ...(owner !== undefined && { terminalsOf: owner }),
  };
  if (isFollowed) {
    const seq = record(names.length > 0 ? { ...route, plain: "after" } : {});
    tellIt();
    return seq;
  }
  tellIt();
  if (names.length === 0 && !plain) return record({});
  return record({ ...route, plain: isDue && !plain ? "after" : "before" });
}

/** The host reports a piece of the output of one of its terminals. */
export function terminalOutput(
  batch: Batch,
  { terminalId, data }: { terminalId: string; data: string },
): void {
  batch.fact("host", "terminal.output", {
    terminalId: clip(terminalId, STATE_BUDGET.terminalIdChars),
    ...shownBy(batch, terminalId),
    data: data.slice(0, batch.limits.frameChars),
  });
}

/** The host reports that the command in one of its terminals has ended. */
export function terminalEnded(
  batch: Batch,
  { terminalId, exitCode, signal }: { terminalId: string; exitCode: number | null; signal: string | null },
): void {
  batch.fact("host", "terminal.ended", {
    terminalId: clip(terminalId, STATE_BUDGET.terminalIdChars),
    ...shownBy(batch, terminalId),
    exitCode,
    signal: signal && clip(signal, STATE_BUDGET.wordChars),
  });
  const terminal = findTerminal(batch.state, terminalId);
  if (terminal) tellOutput(batch, terminal);
}

/** The tool call by which clients know a terminal, and the event that told them of it. */
function shownBy({ state }: Batch, terminalId: string) {
  const { announcedAt = null, toolCallId = null } = findTerminal(state, terminalId) ?? {};
  return announcedAt === null ? { toolCallId: null } : { toolCallId, announcedAt };
}

/** Gives clients without the convention the output of a terminal that has ended, unless they have it. */
function tellOutput(batch: Batch, { toolCallId, told }: ShownTerminal): void {
  if (toolCallId === null || told === "all") return;
  const content = contentOf(batch, findToolCall(batch.state.report, toolCallId));
  const shown = terminalsOf(batch.state, toolCallId);
  const plain = plainContent(content, shown);
  if (plain) tellPlain(batch, toolCallId, plain, shown);
}

/** The process ends, and every terminal with it. */
export function tellAllOutput(batch: Batch): void {
  for (const id of new Set(batch.state.terminals?.map(({ toolCallId }) => toolCallId))) {
    const untold = terminalsOf(batch.state, id).find(({ told, output }) => told !== "all" && output !== "");
    if (untold) tellOutput(batch, untold);
  }
}

/** Most tool calls have no terminals, and cost no more than this. */
function isAboutTerminals({ state }: Batch, toolCall: JsonObject): boolean {
  const { content, toolCallId } = toolCall;
  if (Array.isArray(content) && content.some(isTerminalItem)) return true;
  return terminalsOf(state, toolCallId).length > 0 || Object.keys(terminalMeta(toolCall)).length > 0;
}

/** The state does not keep such an id, and clients get the tool call without the terminal. */
function isTooLong(terminalId: string): boolean {
  return terminalId.length > STATE_BUDGET.terminalIdChars;
}

/** Announces a terminal that no client serves, before the first tool call that names it. */
function announce(batch: Batch, toolCall: JsonObject, id: string): void {
  const { state } = batch;
  const terminal = findTerminal(state, id);
  const isAnnounced = (terminal?.announcedAt ?? null) !== null || announcedBy(toolCall) === id;
  if (isAnnounced || terminal?.client !== undefined) return;
  const toolCallId = toolCall.toolCallId as string;
  const { title = null, kind, status } = findToolCall(state.report, toolCallId) ?? {};
  const update = {
    sessionUpdate: "tool_call",
    toolCallId,
    title: typeof toolCall.title === "string" ? toolCall.title : (title ?? terminal?.command ?? ""),
    kind,
    status,
    _meta: { terminal_info: { terminal_id: id, cwd: terminal?.cwd ?? state.run?.root ?? "" } },
  };
  const updates: object[] = [update];
  if (terminal?.output) updates.push(outputUpdate(toolCallId, id, terminal.output));
  if (terminal?.exit) updates.push(exitUpdate(toolCallId, id, terminal.exit));
  for (const one of updates) tell(batch, one, { having: "terminal-output" });
}

/** The terminals of a tool call as they will be: its frame may bring output itself. */
function terminalsAfter(batch: Batch, toolCall: JsonObject): ShownTerminal[] {
  const after = { terminals: (batch.state.terminals ?? []).map((terminal) => ({ ...terminal })) };
  foldToolCallTerminals(after, toolCall, batch.nextSeq);
  return shownIn(after.terminals, toolCall);
}

/** The terminals that a tool call has mentioned first, or names now. */
function shownIn(terminals: readonly ShownTerminal[], { toolCallId, content }: JsonObject): ShownTerminal[] {
  const names = namedTerminals(content);
  return terminals.filter((terminal) => terminal.toolCallId === toolCallId || names.includes(terminal.id));
}

function isOutputDue(toolCall: JsonObject, shown: readonly ShownTerminal[]): boolean {
  const { status } = toolCall;
  const isEnd = status === "completed" || status === "failed" || terminalMeta(toolCall).exit !== undefined;
  return isEnd && shown.some(({ told }) => told !== "all");
}

/** Whether the content differs from the one that clients have, apart from further output. */
function isNews(known: ToolCall | undefined, content: unknown, shown: readonly ShownTerminal[]): boolean {
  const before = known?.details.content?.value;
  return JSON.stringify(before) !== JSON.stringify(content) || shown.some(({ told }) => told === "nothing");
}

/** The content that the agent last gave the tool call. */
function contentOf(batch: Batch, call: ToolCall | undefined): unknown {
  const kept = call?.details.content;
  if (!kept || kept.value !== undefined) return kept?.value;
  const frame = batch.findFrame(kept.seq)?.frame;
  const { update, toolCall } = frame ? paramsOf(frame) : {};
  return recordOf(update ?? toolCall).content;
}

/** Gives the content without terminals to the clients that do not know them. */
function tellPlain(
  batch: Batch,
  toolCallId: string,
  content: readonly unknown[],
  shown: readonly ShownTerminal[],
): void {
  const update = { sessionUpdate: "tool_call_update", toolCallId, content };
  const owner = ownerOf(shown);
  tell(
    batch,
    update,
    owner === undefined ? { ...announcement(shown), lacking: "terminal-output" } : { except: owner },
  );
}

function ownerOf(shown: readonly ShownTerminal[]): string | undefined {
  return shown.find(({ client }) => client !== undefined)?.client;
}

/** The event from which on clients know all of these terminals that have been announced. */
function announcement(shown: readonly ShownTerminal[]): Route {
  const announced = shown.flatMap(({ announcedAt }) => announcedAt ?? []);
  return announced.length === 0 ? {} : { announcedAt: Math.min(...announced) };
}

function tell(batch: Batch, update: object, route: Route): void {
  const { sessionId } = batch.state;
  batch.frame("gateway", "in", notification("session/update", { sessionId, update }), route);
}
