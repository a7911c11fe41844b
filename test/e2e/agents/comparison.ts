/** Compares what a client receives through the gateway with what it receives from the agent itself. */
import type { Message } from "../client.ts";
import { isUpdateOf } from "../wires/wire-client.ts";
import type { Conversation } from "./capable-client.ts";

type Members = Record<string, unknown>;

/** The messages of a conversation, as lines that two conversations with the same script have in common. */
export function portrait({ client, sessionId, opened }: Conversation, root: string): string[] {
  const received = client.frames.entries.flatMap(({ by, message }) =>
    by === "server" && message ? [message] : [],
  );
  const counts = new Map<string, number>();
  const unsteady = new Set<string>();
  for (const message of received) {
    const label = labelOf(message);
    if (label === undefined) continue;
    if (UNSTEADY.has(label)) unsteady.add(label);
    else counts.set(label, (counts.get(label) ?? 0) + 1);
  }
  const texts = (kind: string) =>
    received
      .filter((message) => isUpdateOf(message, sessionId, kind))
      .map(
        ({ params }) => (params?.update as { content?: { text?: string } } | undefined)?.content?.text ?? "",
      )
      .join("");
  return [
    ...[...counts].map(([label, count]) => `${count} × ${label}`).sort(),
    ...[...unsteady].map((label) => `some ${label}`).sort(),
    `modes: ${namesIn(opened.result, "modes")}`,
    `options: ${namesIn(opened.result, "configOptions")}`,
    `text: ${neutral(texts("agent_message_chunk"), root)}`,
    `thought: ${neutral(texts("agent_thought_chunk"), root)}`,
  ];
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

/** The kind of a message, without ids and without the gateway's own additions. */
function labelOf({ id, method, params, result, error }: Message): string | undefined {
  if (method === undefined) {
    if (error) return `error ${error.code}`;
    const { stopReason } = (result ?? {}) as { stopReason?: string };
    return stopReason && `response: ${stopReason}`;
  }
  if (method.startsWith("_acp-edge/")) return undefined;
  if (method !== "session/update") return `${id === undefined ? "notification" : "request"} ${method}`;
  const update = params?.update as (Members & { sessionUpdate: string }) | undefined;
  if (!update || isOfGateway(update)) return undefined;
  const { sessionUpdate, status, content } = update;
  if (UNSTEADY.has(sessionUpdate)) return sessionUpdate;
  return [sessionUpdate, status, typesOf(content), metaOf(update)].filter(Boolean).join(" ");
}

function isOfGateway({ _meta }: Members): boolean {
  return Object.keys((_meta ?? {}) as Members).some((key) => key.startsWith("acp-edge/event"));
}

function typesOf(content: unknown): string {
  const parts = Array.isArray(content) ? (content as { type?: string }[]) : [];
  return parts.length === 0 ? "" : `[${parts.map(({ type }) => type).join(", ")}]`;
}

function metaOf({ _meta }: Members): string {
  const keys = Object.keys((_meta ?? {}) as Members).filter((key) => !key.startsWith("acp-edge/"));
  return keys.length === 0 ? "" : `+ ${keys.sort().join(", ")}`;
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
