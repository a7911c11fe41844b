import { z } from "zod";
import { parseJson, recordOf } from "./json-value.ts";

/**
 * The wire of a client connection that outlives its sockets, spoken on `/acp` with clients that offer the subprotocol.
 *
 * Every message is text: one line of JSON, the head, then the ACP frames it carries, one per line. Both directions are
 * numbered. The gateway sends pages of streams: one stream per session, and the connection's own, whose name is empty.
 * Each page names the position in its stream at which it ends. A client that comes back with `Acp-Connection-Id` tells
 * its position in each stream, and the gateway continues from there: a stream is read from the session's log, so
 * nothing is kept for an absent client. Pages are small, because a page that does not arrive whole is sent again. Pages
 * are acknowledged, because a client that does not read must not be sent more than a few.
 */
export const RESUMABLE = "acp-edge.resume.v1";

/**
 * A client sends the text `ping` at least this often and gets `pong`. A socket without pings counts as lost after
 * `resumeSilentMs`.
 */
export const HEARTBEAT_MS = 60_000;

/** Client → gateway. */
export type ClientHead =
  /** First message on each socket. `own` is the number of the last own message of the connection that it has. */
  | { t: "hello"; own: number; cursors: Record<string, string> }
  /** Frames `first`, `first + 1`, … of this client follow. */
  | { t: "lines"; first: number }
  /** The client has `chars` characters of pages from this socket, and the connection's own messages up to `own`. */
  | { t: "ack"; chars: number; own: number };

/** Gateway → client. */
export type GatewayHead =
  /** Frames up to `received` need not be sent again. */
  | { t: "welcome"; connection: string; received: number }
  | { t: "ack"; received: number }
  /** A page of the stream `of` follows; the page ends at the cursor `at`. */
  | { t: "page"; of: string; at: string };

/** Splits a message into its head and its frames. The caller validates the head. */
export function splitMessage(message: string): { head: unknown; lines: string[] } {
  const [first = "", ...lines] = message.split("\n");
  return { head: parseJson(first), lines };
}

export function joinMessage(head: ClientHead | GatewayHead, lines: readonly string[] = []): string {
  return [JSON.stringify(head), ...lines].join("\n");
}

const count = z.number().int().nonnegative();

/** Undefined for a value that is no head of a client. */
export function readClientHead(head: unknown): ClientHead | undefined {
  const read = CLIENT_HEAD.safeParse(head);
  return read.success ? read.data : undefined;
}

const CLIENT_HEAD: z.ZodType<ClientHead> = z.discriminatedUnion("t", [
  z.object({ t: z.literal("hello"), own: count, cursors: z.record(z.string(), z.string()) }),
  z.object({ t: z.literal("lines"), first: count.min(1) }),
  z.object({ t: z.literal("ack"), chars: count, own: count }),
]);

/** Undefined for a value that is no head of the gateway. Validated by hand for speed: every page has a head. */
export function readGatewayHead(head: unknown): GatewayHead | undefined {
  const { t, of, at, connection, received } = recordOf(head);
  if (t === "page" && typeof of === "string" && typeof at === "string") return { t, of, at };
  if (typeof received !== "number" || !Number.isSafeInteger(received)) return undefined;
  if (t === "ack") return { t, received };
  return t === "welcome" && typeof connection === "string" ? { t, connection, received } : undefined;
}
