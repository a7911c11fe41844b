import type { EventCursor } from "../../protocol/cursor.ts";
import type { FrameMark } from "../../protocol/rpc.ts";
import { charsOf, isFrame, type LogEvent } from "../core/events/event.ts";
import { forClient } from "../core/read/for-client.ts";
import { asReleased, releasedBy } from "../core/read/held-frames.ts";
import { redacted } from "../core/read/redaction/redaction.ts";
import { type Attachment, admits, mergeChunks, type RenderedFrames } from "../core/read/replay.ts";
import type { PageRoom } from "./page-room.ts";
import type { Presence } from "./presence.ts";

/** The log, as far as a client's cursor reads it. */
export type LogReader = {
  /** The size of a page. Only a single event makes a larger one. */
  readonly pageChars: number;
  /** Characters up to which a replay joins the chunks of a message. */
  readonly replayChunkChars: number;
  /** The events after `seq`, up to about a page; from the archive, if they are there. Rejects with `HistoryGone`. */
  after(seq: number): LogEvent[] | Promise<LogEvent[]>;
  /** An event that is at hand: in storage, or in the archived segment that is held. */
  eventAt(seq: number): LogEvent | undefined;
  /** An event in the archive; undefined if the archive has lost it. */
  archivedAt(seq: number): Promise<LogEvent | undefined>;
  /** The room that all clients of the session share. */
  readonly room: PageRoom;
};

/**
 * The part of the log that a client reads under one attachment: its present one, or the rest of an earlier one, which
 * ends with the event `until`.
 */
export type ReadSpan = Pick<Attachment, "seq" | "merge" | "offers" | "as"> & {
  readonly start?: number;
  readonly until?: number;
};

/** For whom events are rendered. */
export type Recipient = {
  readonly sessionId: string;
  readonly connection: string;
  readonly presence: Presence;
};

export type MarkedFrame = {
  readonly text: string;
  /** The frame's index among the frames of its event. */
  readonly nth: number;
  readonly mark: FrameMark;
};

/** The frames that a client gets for these events, which follow event `position`. */
export function renderFrames(
  logged: readonly LogEvent[],
  position: number,
  span: ReadSpan,
  recipient: Recipient,
  log: LogReader,
): RenderedFrames {
  const { seq: attachment, merge, as } = span;
  const { connection, sessionId, presence } = recipient;
  const { answers, subscriptions = {} } = presence;
  const from = unseenBefore(span);
  const replayUntil = as === undefined ? attachment : 0;
  const viewer = { connection, as, replayUntil, from, answers, subscriptions };
  const events = presence.redacted ? logged.map((event) => redacted(event)) : logged;
  const isMerging = merge && position < attachment;
  const render = (part: readonly LogEvent[]): RenderedFrames => {
    if (isMerging) return mergeChunks(part, sessionId, viewer, log.replayChunkChars);
    const rendered = noFrames();
    for (const event of part) append(rendered, forClient(event, sessionId, viewer), event.seq);
    return rendered;
  };
  const entry = events.findIndex((event) => admits(event, connection, attachment));
  const entrance = events[entry];
  if (!entrance) return render(events);
  const rendered = render(events.slice(0, entry + 1));
  append(rendered, openRequests(span, recipient, log), entrance.seq);
  const rest = render(events.slice(entry + 1));
  for (const [i, text] of rest.texts.entries()) append(rendered, [text], rest.seqs[i] as number);
  return rendered;
}

/** The event up to which the client has seen nothing: it attached without a replay, and continues no earlier reading. */
function unseenBefore({ seq, start }: ReadSpan): number {
  return start === seq ? seq : 0;
}

/** Frames with their marks. Chunks that were joined have the mark of the last event among them. */
export function markFrames({ texts, seqs }: RenderedFrames, events: readonly LogEvent[]): MarkedFrame[] {
  const answers = new Set(events.filter(isAnswer).map(({ seq }) => seq));
  let nth = 0;
  return texts.map((text, i) => {
    const seq = seqs[i] as number;
    nth = seqs[i - 1] === seq ? nth + 1 : 0;
    const part = seqs[i + 1] === seq ? nth : null;
    return { text, nth, mark: { seq, part, isAnswer: nth === 0 && answers.has(seq) } };
  });
}

export function isAnswer(event: LogEvent): boolean {
  return isFrame(event) && event.direction === "in" && event.frame.kind === "response";
}

/** Events up to the end of a span. */
export function withinSpan(events: LogEvent[], { until = Number.POSITIVE_INFINITY }: ReadSpan): LogEvent[] {
  const last = events.at(-1);
  return last && last.seq > until ? events.filter(({ seq }) => seq <= until) : events;
}

/**
 * A page of events with the frames whose wait ends in it. The page ends before a frame that would make it too large.
 * Only a page of one event waits for the archive.
 */
export function withReleased(
  events: LogEvent[],
  { seq, as }: ReadSpan,
  log: LogReader,
): LogEvent[] | Promise<LogEvent[]> {
  const attachment = as === undefined ? seq : 0;
  const page: LogEvent[] = [];
  let chars = 0;
  for (const event of events) {
    const released = releasedBy(event);
    const held = released === undefined ? undefined : log.eventAt(released);
    if (released !== undefined && !held)
      return page.length > 0
        ? page
        : log.archivedAt(released).then((archived) => [asReleased(event, archived, attachment)]);
    const read = asReleased(event, held, attachment);
    chars += charsOf(read);
    if (read !== event && page.length > 0 && chars > log.pageChars) return page;
    page.push(read);
  }
  return page;
}

/** The cursor of a client that attached and has got nothing yet. */
export function startOf({ seq, start }: Attachment): EventCursor {
  return { attachment: seq, seq: start };
}

/**
 * The agent's requests that were open when the client attached. A client reads further on that a request has been
 * answered since.
 */
function openRequests(
  span: ReadSpan,
  { connection, sessionId, presence: { answers, subscriptions = {}, redacted: isRedacted } }: Recipient,
  log: LogReader,
): string[] {
  const viewer = { connection, replayUntil: 0, from: unseenBefore(span), answers, subscriptions };
  return eventsAt(span.offers, log).flatMap((event) =>
    forClient(isRedacted ? redacted(event) : event, sessionId, viewer),
  );
}

/** The agent's open requests that a page with these events has in addition. */
export function offeredWith(
  events: readonly LogEvent[],
  { seq, offers }: ReadSpan,
  connection: string,
  log: LogReader,
): LogEvent[] {
  const isEntering = offers.length > 0 && events.some((event) => admits(event, connection, seq));
  return isEntering ? eventsAt(offers, log) : [];
}

function eventsAt(seqs: readonly number[], log: LogReader): LogEvent[] {
  return seqs.flatMap((seq) => log.eventAt(seq) ?? []);
}

function noFrames(): RenderedFrames {
  return { texts: [], seqs: [] };
}

function append({ texts, seqs }: RenderedFrames, frames: readonly string[], seq: number): void {
  for (const frame of frames) {
    texts.push(frame);
    seqs.push(seq);
  }
}
