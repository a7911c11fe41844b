import type { ClientAbility } from "../../../protocol/client-abilities.ts";
import { type Frame, oneLine } from "../../../protocol/frame.ts";
import { isoTime } from "../../../protocol/iso-time.ts";
import type { FactKind, Facts } from "./catalogue.ts";

/**
 * The unit of the log. Readers see each event in the envelope of the acpx session model (`acpx.event.v1`). In memory and
 * in storage, fields that many events share are kept once.
 */
export type LogEvent = FrameEvent | FactEvent | ForeignEvent;

/**
 * The writer of an event: a client, the agent process, its host, or the gateway itself. Events of another system may
 * name writers of that system.
 */
export type Source = "client" | "agent" | "host" | "gateway" | (string & Record<never, never>);

/** Ids that hold for many events in a row, which share one object. */
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
  /** As the client sees it, and acpx: `out` goes towards the agent, `in` comes from the agent. */
  readonly direction: "in" | "out";
  readonly frame: Frame;
  readonly route: Route;
};

/** A fact derived from frames or reported by the host. The catalogue has every kind. */
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
 * Everything that the delivery of a frame depends on. It is fixed when the frame is logged, so that every reader of the
 * log renders the frame alike at any later time. The route is part of the payload, which readers see.
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
  /** JSON text of the id that the receiver knows: for a response, that of its own request. */
  readonly id?: string;
  /** Sequence number of the request this frame answers. */
  readonly re?: number;
  /** JSON text of `params.requestId` as the receiver knows it. */
  readonly requestId?: string;
  /** JSON text of the receiver's own path of the file, or of the terminal's directory, in `params`. */
  readonly path?: string;
  /**
   * The reason why a frame does not reach the other side:
   * - `held`: the frame waits until a queue.dequeued or a session.update_released names it.
   * - `gateway`: the gateway answers the frame.
   * - `reader`: a reader's request, or its answer. Neither counts as activity or as history.
   * - `host`: the host serves the request.
   * - `sent`: the host has sent the frame already.
   * - `stray`: nobody waits for the frame.
   * - `declined`: the client cannot answer the request, and another client, or a person without one, may.
   * - `replay`: the agent repeats an event that the log has.
   * - `duplicate`: the agent repeats the chunk before, within such a replay or where the workspace wants no repetitions.
   */
  readonly stop?: Stop;
  /** The frame names the agent session that is being opened, before the answer that opens it. */
  readonly early?: true;
  /** Only clients with this ability get the frame. */
  readonly having?: ClientAbility;
  /** Only clients without this ability get the frame: it says in a plainer form what the others are told. */
  readonly lacking?: ClientAbility;
  /**
   * The tool call names terminals. A frame of the gateway, before or after this one, has its content with text in place of
   * the terminals, and clients with the ability know the terminals.
   */
  readonly plain?: "before" | "after";
  /** The event that told clients of the terminals, if it was an earlier one: later clients do not know them. */
  readonly announcedAt?: number;
  /** The connection whose client has created the terminals that the tool call names. */
  readonly terminalsOf?: string;
  /** Sequence number of the prompt that this one repeats under the same idempotency key. */
  readonly repeats?: number;
};

export const STOPS = [
  "held",
  "gateway",
  "reader",
  "host",
  "sent",
  "stray",
  "declined",
  "replay",
  "duplicate",
] as const;
export type Stop = (typeof STOPS)[number];

/** The size of an event, in characters. Most facts are small and not worth measuring. */
export function charsOf(event: LogEvent): number {
  if (isFrame(event)) return event.frame.raw.length;
  const { data } = event.payload as Payload;
  return typeof data === "string" ? FACT_CHARS + data.length : FACT_CHARS;
}

const FACT_CHARS = 200;

/** Characters of a frame that count as history, which has a limit: readers use up nothing of it. */
export function historyCharsOf({ frame, route }: FrameEvent): number {
  return route.stop === "reader" ? 0 : frame.raw.length;
}

export function isFrame(event: LogEvent): event is FrameEvent {
  return event.kind === "acp.frame";
}

export function isFact(event: LogEvent): event is FactEvent {
  return event.kind !== "acp.frame" && !("foreign" in event);
}

/** The event as readers see it: one line of NDJSON. A frame's text in it is the sender's own. */
export function envelope(event: LogEvent, sessionId: string, id: string): string {
  const { acpSessionId, agentSessionId, turnId } = event.context;
  const head = JSON.stringify({
    schema: "acpx.event.v1",
    seq: event.seq,
    eventId: id,
    at: isoTime(event.at),
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

/** The id of the event at the given index of its row: a ULID that ends in the index. */
export function eventId(prefix: string, index: number): string {
  let tail = "";
  for (let rest = index, i = 0; i < INDEX_CHARS; i += 1, rest = Math.floor(rest / 32)) {
    tail = CROCKFORD[rest % 32] + tail;
  }
  return prefix + tail;
}

const INDEX_CHARS = 5;
const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
