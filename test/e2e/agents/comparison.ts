/** Compares what a client receives through the gateway with what it receives from the agent itself. */
import type { Message } from "../client.ts";
import type { Conversation } from "./capable-client.ts";

type Members = Record<string, unknown>;
type Update = Members & { sessionUpdate: string; toolCallId?: string };

/** The messages of a conversation, as lines that two conversations with the same script have in common. */
export function portrait({ client, opened }: Conversation, root: string): string[] {
  const received = client.frames.entries.flatMap(({ by, message }) =>
    by === "server" && message ? [message] : [],
  );
  const updates = received.flatMap(({ params }) => (params?.update ? [params.update as Update] : []));
  const labels = [...received.flatMap((message) => labelOf(message) ?? []), ...toolCalls(updates)];
  const texts = (kind: string) =>
    updates
      .filter(({ sessionUpdate }) => sessionUpdate === kind)
      .map(({ content }) => (content as { text?: string } | undefined)?.text ?? "")
      .join("");
  return [
    ...counted(labels),
    `modes: ${namesIn(opened.result, "modes")}`,
    `options: ${namesIn(opened.result, "configOptions")}`,
    `text: ${neutral(texts("agent_message_chunk"), root)}`,
    `thought: ${neutral(texts("agent_thought_chunk"), root)}`,
  ];
}

/** Each label with its number; some kinds are only said to be there. */
function counted(labels: string[]): string[] {
  const counts = Map.groupBy(labels, (label) => label);
  return [...counts]
    .map(([label, all]) => (UNSTEADY.has(label) ? `some ${label}` : `${all.length} × ${label}`))
    .sort();
}

/** The lines that only one of two portraits has, marked with the side that has them. */
export function difference(direct: string[], through: string[]): string[] {
  return [
    ...direct.filter((line) => !through.includes(line)).map((line) => `only directly:           ${line}`),
    ...through.filter((line) => !direct.includes(line)).map((line) => `only through the gateway: ${line}`),
  ];
}

/** Kinds that an agent sends when it has found or counted something, which depends on the machine. */
const UNSTEADY = new Set(["available_commands_update", "session_info_update", "usage_update"]);

/** The kind of a message, without ids and without the gateway's own additions. Tool calls are told as a whole. */
function labelOf({ id, method, params, result, error }: Message): string | undefined {
  if (method === undefined) {
    if (error) return `error ${error.code}`;
    const { stopReason } = (result ?? {}) as { stopReason?: string };
    return stopReason && `response: ${stopReason}`;
  }
  if (method.startsWith("_acp-edge/")) return undefined;
  if (method !== "session/update") return `${id === undefined ? "notification" : "request"} ${method}`;
  const update = params?.update as Update | undefined;
  if (!update || isOfGateway(update) || update.toolCallId !== undefined) return undefined;
  return update.sessionUpdate;
}

/**
 * The course of each tool call. An agent that has the whole input in time announces a call with it, and otherwise sends
 * an update later, so the number of updates says nothing.
 */
function toolCalls(updates: Update[]): string[] {
  const calls = Map.groupBy(
    updates.filter(({ toolCallId }) => toolCallId !== undefined),
    ({ toolCallId }) => toolCallId,
  );
  return [...calls.values()].map((all) => {
    const told = (values: unknown[]) => [...new Set(values.filter(Boolean))].join(", ");
    return [
      `tool call: ${told(all.map(({ kind }) => kind))}`,
      told(all.map(({ status }) => status)),
      `content ${told(all.flatMap(({ content }) => typesOf(content)))}`,
      `_meta ${told(all.flatMap(metaOf).sort())}`,
    ].join("; ");
  });
}

function isOfGateway({ _meta }: Members): boolean {
  return Object.keys((_meta ?? {}) as Members).some((key) => key.startsWith("acp-edge/event"));
}

function typesOf(content: unknown): (string | undefined)[] {
  return Array.isArray(content) ? (content as { type?: string }[]).map(({ type }) => type) : [];
}

function metaOf({ _meta }: Members): string[] {
  return Object.keys((_meta ?? {}) as Members).filter((key) => !key.startsWith("acp-edge/"));
}

function namesIn(result: unknown, member: "modes" | "configOptions"): string {
  const value = (result as Members)[member] as { id: string }[] | { availableModes: { id: string }[] } | null;
  const entries = Array.isArray(value) ? value : (value?.availableModes ?? []);
  return entries.map(({ id }) => id).join(", ");
}

/** Without what differs from run to run. */
function neutral(text: string, root: string): string {
  return text.replaceAll(root, "ROOT").replace(/PGID: \d+/g, "PGID: N");
}
