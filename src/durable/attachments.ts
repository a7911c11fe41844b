import { z } from "zod";
import { ALLOWANCE, CLIENT_STATE } from "../protocol/client-state.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import type { EventCursor } from "../protocol/cursor.ts";
import { ATTACHMENT_VERSION, NEWEST_READ, versionOf } from "../protocol/versions.ts";

/**
 * Socket attachments: everything an object remembers of a socket while it hibernates. Each attachment has a `kind`, and
 * is validated when it is read: a socket that hibernates survives a deploy or a rollback, so older or newer code may
 * have written its attachment. A field that comes later is optional or has a default.
 */

const count = z.number().int().nonnegative();
const eventCursor: z.ZodType<EventCursor> = z.object({ attachment: count, seq: count });
/** Signs that somebody is at the other end of a client's socket, see `connection/liveness.ts`. */
const liveness = { heard: z.number(), askedAt: z.number().optional() };

const SCHEMAS = {
  /**
   * The socket of a client that speaks plain ACP. It holds the part of the connection's state that changes with every
   * message; the rest, which a token can make longer than an attachment may be, is in storage.
   */
  client: z.object({
    kind: z.literal("client"),
    ...CLIENT_STATE.pick({ sent: true, allowance: true }).shape,
    ...liveness,
    cursors: z.record(z.string(), eventCursor),
    /** Characters of pages sent since the client last answered our ping. */
    unread: count.optional(),
    /** The client gets no more pages until it answers our ping. */
    paused: z.literal(true).optional(),
    /** When the client was paused. Sockets of earlier builds do not say. */
    pausedAt: z.number().optional(),
    /** The client is gone, and its sessions know. */
    left: z.literal(true).optional(),
  }),

  /** The socket of the Worker that serves one event stream of a Streamable HTTP client. */
  "stream-reader": z.object({
    kind: z.literal("stream-reader"),
    stream: z.string(),
    /** The reader has asked for a page and has not got it yet. */
    waiting: z.boolean(),
    cursor: z.object({ attachment: count, seq: count, part: count }).nullable(),
  }),

  /** A socket of a client that resumes. The client repeats most of this when it comes back. */
  resumable: z.object({
    kind: z.literal("resumable"),
    ...liveness,
    greeted: z.boolean(),
    /** Number of the client's last frame. */
    sent: count,
    /** Characters sent in pages, and how many of them the client has acknowledged. */
    chars: count,
    acked: count,
    /** The last of the connection's own messages that this client has or was sent. */
    own: count,
    /** Null: the session has asked for the cursor, and the client has got nothing of the session yet. */
    cursors: z.record(z.string(), eventCursor.nullable()),
    allowance: ALLOWANCE.optional(),
  }),

  /** The socket of the Worker that streams a session's log as it grows. */
  "log-watcher": z.object({
    kind: z.literal("log-watcher"),
    /** The last event sent. */
    seq: count,
    waiting: z.boolean(),
    redact: z.boolean().optional(),
    /** The reader came by a share link. */
    link: z.boolean().optional(),
  }),

  /** A host's socket for one session. */
  "host-link": z.object({
    kind: z.literal("host-link"),
    /** The name of the only host that may use the socket's token, if the token has one. */
    host: z.string().optional(),
    /** The run that the host has said hello for, and the last event of the log that went down this socket. */
    run: z.object({ id: z.string(), sent: count }).nullable(),
    /** When the socket was accepted. Sockets of earlier builds do not say. */
    since: z.number().optional(),
  }),

  /** A host's control socket. */
  "host-control": z.object({
    kind: z.literal("host-control"),
    /** The host that this socket speaks for. */
    host: z.object({ name: z.string(), instance: z.string() }).nullable(),
    /** The last report of the host's load, and when it came. A report changes too often to be a row. */
    load: z.object({ runs: z.number(), loadAverage: z.number(), freeMemory: z.number() }).optional(),
    reportedAt: z.number().optional(),
  }),

  /** The socket of the Worker that streams a workspace's view as it changes. */
  "workspace-watcher": z.object({
    kind: z.literal("workspace-watcher"),
    id: z.string(),
    /** A mark of the last view sent. */
    seen: z.string(),
    waiting: z.boolean(),
  }),
};

type Schemas = typeof SCHEMAS;
export type SocketKind = keyof Schemas;
export type AttachmentOf<Kind extends SocketKind> = z.infer<Schemas[Kind]>;
export type SocketAttachment = AttachmentOf<SocketKind>;

/**
 * The attachments read or written since the object woke: a message must not cost another validation. Attachments are
 * replaced as a whole, never changed in place.
 */
const known = new WeakMap<WebSocket, SocketAttachment>();

/** The kind of a socket; undefined when its attachment names none that we know. */
export function socketKind(ws: WebSocket): SocketKind | undefined {
  const attachment = known.get(ws);
  if (attachment) return attachment.kind;
  const { kind } = (ws.deserializeAttachment() ?? {}) as { kind?: unknown };
  return isKind(kind) ? kind : undefined;
}

/**
 * A socket's attachment. A socket whose attachment does not validate, or is of a newer version, is closed: nothing is
 * known of its peer.
 */
export function readAttachment<Kind extends SocketKind>(
  ws: WebSocket,
  kind: Kind,
): AttachmentOf<Kind> | undefined {
  const attachment = known.get(ws);
  if (attachment?.kind === kind) return attachment as AttachmentOf<Kind>;
  const stored: unknown = ws.deserializeAttachment();
  const read = SCHEMAS[kind].safeParse(stored);
  if (!read.success || versionOf(stored) > NEWEST_READ.attachment) {
    closeUnreadable(ws);
    return undefined;
  }
  known.set(ws, read.data);
  return read.data as AttachmentOf<Kind>;
}

export function writeAttachment(ws: WebSocket, attachment: SocketAttachment): void {
  ws.serializeAttachment({ ...attachment, v: ATTACHMENT_VERSION });
  known.set(ws, attachment);
}

/** Ends a socket of which nothing is known. Its peer connects anew. */
export function closeUnreadable(ws: WebSocket): void {
  const { kind } = (ws.deserializeAttachment() ?? {}) as { kind?: unknown };
  console.error("socket attachment unreadable", { kind, version: versionOf(ws.deserializeAttachment()) });
  if (ws.readyState === WebSocket.OPEN) ws.close(CloseCode.serviceRestart, "connection state unreadable");
}

function isKind(kind: unknown): kind is SocketKind {
  return typeof kind === "string" && kind in SCHEMAS;
}
