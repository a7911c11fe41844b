import { type Frame, oneLine } from "../../../protocol/frame.ts";
import type { FactKind, Facts } from "./catalogue.ts";

/**
 * The log's unit. Readers see each event as the envelope of the acpx session model (`acpx.event.v1`);
 * in memory and in storage the fields that many events share are kept once.
 */
export type LogEvent = FrameEvent | FactEvent | ForeignEvent;

/**
 * Who wrote it: a client, the agent process, the host it runs on, or the gateway itself; in events that
 * came from another system also what that calls its own.
 */
export type Source = "client" | "agent" | "host" | "gateway" | (string & Record<never, never>);

/** What holds for a run of events. */
export type Context = {
  readonly acpSessionId: string | null;
  readonly agentSessionId: string | null;
  readonly turnId: string | null;
};

export type EventBase = {
  readonly seq: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly context: Context;
  readonly source: Source;
  readonly requestId?: string;
};

/** A JSON-RPC message exactly as its sender wrote it. */
export type FrameEvent = EventBase & {
  readonly kind: "acp.frame";
  /** Seen from the client's side, as in acpx: `out` goes towards the agent, `in` comes from there. */
  readonly direction: "in" | "out";
  readonly frame: Frame;
  readonly route: Route;
};

/** Anything else worth remembering, derived from frames or told by the host. The catalogue has every kind. */
export type FactEvent<Kind extends FactKind = FactKind> = {
  [K in Kind]: EventBase & { readonly kind: K; readonly payload: Facts[K] };
}[Kind];

/**
 * An event of another system, of a kind or in a form that the catalogue does not know: kept verbatim, shown, never
 * folded.
 */
export type ForeignEvent = EventBase & {
  readonly kind: string;
  readonly payload: Payload;
  readonly foreign: true;
};

export type Payload = Readonly<Record<string, unknown>>;

/**
 * What a frame's delivery depends on, fixed when it is logged, so that every reader of the log comes to
 * the same text at any later time. Part of the payload: nothing about an event is hidden from readers.
 */
export type Route = {
  /** The connection a client's frame came from, or on whose behalf the gateway asks the agent. */
  readonly connection?: string;
  /** The only connection this frame is for. */
  readonly to?: string;
  /** The one connection this frame is not for. */
  readonly except?: string;
  /** Connections that get the same answer in frames of their own. */
  readonly also?: readonly string[];
  /** JSON text of the id the receiver knows: of its own request, for a response. */
  readonly id?: string;
  /** Sequence number of the request this frame answers. */
  readonly re?: number;
  /** JSON text of `params.requestId` as the receiver knows it. */
  readonly requestId?: string;
  /** JSON text of the path in `params` as the receiver has it: of a file, or of a terminal's directory. */
  readonly path?: string;
  /**
   * Why a frame does not go on to the other side: `held` until a queue.dequeued names it, `gateway`
   * answers it, `host` serves it, it was `sent` already, it is `stray` (nobody waits for it), it has been
   * `declined` by a client that does not know the method while another may, or it is an agent's
   * `replay` of what the log has, with the `duplicate`s it makes of its own.
   */
  readonly stop?: "held" | "gateway" | "host" | "sent" | "stray" | "declined" | "replay" | "duplicate";
  /** The agent speaks of its next session before it has answered the session/new that opens it. */
  readonly early?: true;
  /** Sequence number of the prompt this one repeats: same idempotency key, same answer. */
  readonly repeats?: number;
};

export function isFrame(event: LogEvent): event is FrameEvent {
  return event.kind === "acp.frame";
}

export function isFact(event: LogEvent): event is FactEvent {
  return event.kind !== "acp.frame" && !("foreign" in event);
}

/** The event as readers see it: one line of NDJSON, the peer's own text inside. */
export function envelope(event: LogEvent, sessionId: string, id: string): string {
  const { acpSessionId, agentSessionId, turnId } = event.context;
  const head = JSON.stringify({
    schema: "acpx.event.v1",
    seq: event.seq,
    eventId: id,
    at: new Date(event.at).toISOString(),
    acpxRecordId: sessionId,
    acpSessionId,
    agentSessionId,
    turnId,
    requestId: event.requestId ?? null,
    source: event.source,
    kind: event.kind,
  });
  return `${head.slice(0, -1)},"payload":${payloadText(event)}}`;
}

function payloadText(event: LogEvent): string {
  if (!isFrame(event)) return JSON.stringify(event.payload);
  const route = JSON.stringify(event.route);
  const rest = route === "{}" ? "" : `,${route.slice(1, -1)}`;
  return `{"direction":"${event.direction}","message":${oneLine(event.frame.raw)}${rest}}`;
}

/** The part of a ULID that the event ids of one stored row share: all but the characters of `eventId`'s index. */
export function eventIdPrefix(ulid: string): string {
  return ulid.slice(0, -INDEX_CHARS);
}

/** The id of the event at the given place in its row: a ULID that ends in that place. */
export function eventId(prefix: string, index: number): string {
  let tail = "";
  for (let rest = index, i = 0; i < INDEX_CHARS; i += 1, rest = Math.floor(rest / 32)) {
    tail = CROCKFORD[rest % 32] + tail;
  }
  return prefix + tail;
}

const INDEX_CHARS = 5;
const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
