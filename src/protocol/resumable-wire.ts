import { z } from "zod";
import { parseJson } from "./json-value.ts";

/**
 * The wire of a client connection that outlives its sockets, spoken on `/acp` by who offers the subprotocol.
 *
 * Every message is text: one line of JSON, the head, then the ACP frames it carries, one per line. Both
 * directions are numbered. What the gateway sends comes in pages of one stream: a session's, or the
 * connection's own, whose name is empty. Each page says where in its stream it ends. A client that comes back
 * with `Acp-Connection-Id` tells how far it got in each stream, and the gateway goes on from there: a stream is
 * read from the session's log, so nothing is kept for a client that is away. Pages are small, because a
 * page that does not arrive whole is sent again; and acknowledged, because a client that does not read is not to
 * be sent more than a few.
 */
export const RESUMABLE = "acp-edge.resume.v1";

/**
 * A client says `ping` at least this often, as a message of its own, and is answered `pong`. The socket of one that
 * does not is taken for lost after a while.
 */
export const HEARTBEAT_MS = 60_000;

/** Client → gateway. */
export type ClientHead =
  /** First message on each socket. `own` is the last of the connection's own messages it has. */
  | { t: "hello"; own: number; cursors: Record<string, string> }
  /** Frames `first`, `first + 1`, … of this client follow. */
  | { t: "lines"; first: number }
  /** It has pages of so many characters in all from this socket, and the connection's own messages up to `own`. */
  | { t: "ack"; chars: number; own: number };

/** Gateway → client. */
export type GatewayHead =
  /** Frames up to `received` need not be sent again. */
  | { t: "welcome"; connection: string; received: number }
  | { t: "ack"; received: number }
  /** A page of the stream `of` follows, which ends at `at`. */
  | { t: "page"; of: string; at: string };

/** Splits a message into its head, yet to be checked, and its frames. */
export function splitMessage(message: string): { head: unknown; lines: string[] } {
  const [first = "", ...lines] = message.split("\n");
  return { head: parseJson(first), lines };
}

export function joinMessage(head: ClientHead | GatewayHead, lines: readonly string[] = []): string {
  return [JSON.stringify(head), ...lines].join("\n");
}

const count = z.number().int().nonnegative();

/** Undefined for anything that is not a head of a client. */
export function readClientHead(head: unknown): ClientHead | undefined {
  const read = CLIENT_HEAD.safeParse(head);
  return read.success ? read.data : undefined;
}

const CLIENT_HEAD: z.ZodType<ClientHead> = z.discriminatedUnion("t", [
  z.object({ t: z.literal("hello"), own: count, cursors: z.record(z.string(), z.string()) }),
  z.object({ t: z.literal("lines"), first: count.min(1) }),
  z.object({ t: z.literal("ack"), chars: count, own: count }),
]);

/** Undefined for anything that is not a head of the gateway. Each page of a stream has one: checked by hand. */
export function readGatewayHead(head: unknown): GatewayHead | undefined {
  const { t, of, at, connection, received } = (head ?? {}) as Record<string, unknown>;
  if (t === "page" && typeof of === "string" && typeof at === "string") return { t, of, at };
  if (!Number.isSafeInteger(received)) return undefined;
  if (t === "ack") return { t, received: received as number };
  if (t === "welcome" && typeof connection === "string")
    return { t, connection, received: received as number };
  return undefined;
}
