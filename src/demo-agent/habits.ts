/** Bad habits of real agents, switched on by `DEMO_AGENT_MISBEHAVE` so that the gateway can be tested against them. */
import { randomUUID } from "node:crypto";
import type { AnyMessage, JsonRpcId, Stream } from "@agentclientprotocol/sdk";

const HABITS = [
  /** Exits with code 3 and a line on stderr before it answers any request. */
  "exit",
  /** Reads requests and never answers. */
  "silent",
  /** Prints lines that are not JSON before it works normally. */
  "garbage",
  /** Uses UUID strings as request ids and writes `id` last in the object. */
  "ids",
  /** Sends an update for a session before the response to its `session/new`. */
  "early-update",
  /** Always answers with `protocolVersion: 2`. */
  "version2",
  /** Ignores SIGTERM and the end of stdin. */
  "stubborn",
] as const;

export type Habit = (typeof HABITS)[number];

export function parseHabits(value = ""): Set<Habit> {
  const wanted = value.split(",").map((name) => name.trim());
  return new Set(HABITS.filter((habit) => wanted.includes(habit)));
}

export const STARTUP_NOISE = [
  "Starting demo agent…",
  "(node:1) Warning: this line does not belong on stdout",
  "{ not json",
  "",
  "",
].join("\n");

/** Replaces the ids of the agent's own requests in both directions, also in messages that refer to them. */
export function withUuidIds(stream: Stream): Stream {
  const uuids = new Map<JsonRpcId, string>();
  const originals = new Map<JsonRpcId, JsonRpcId>();

  const rename = (id: JsonRpcId): string => {
    const uuid = randomUUID();
    uuids.set(id, uuid);
    originals.set(uuid, id);
    return uuid;
  };

  const outgoing = new TransformStream<AnyMessage, AnyMessage>({
    transform(message, controller) {
      if (!("method" in message)) return controller.enqueue(message);
      if ("id" in message) {
        const { id, ...rest } = message;
        return controller.enqueue({ ...rest, id: rename(id) });
      }
      const cancelled = message.method === "$/cancel_request" && (message.params as { requestId: JsonRpcId });
      controller.enqueue(
        cancelled
          ? { ...message, params: { requestId: uuids.get(cancelled.requestId) ?? cancelled.requestId } }
          : message,
      );
    },
  });
  const incoming = new TransformStream<AnyMessage, AnyMessage>({
    transform(message, controller) {
      const isResponse = "id" in message && !("method" in message);
      controller.enqueue(isResponse ? { ...message, id: originals.get(message.id) ?? message.id } : message);
    },
  });

  void outgoing.readable.pipeTo(stream.writable).catch(() => {});
  return { writable: outgoing.writable, readable: stream.readable.pipeThrough(incoming) };
}
