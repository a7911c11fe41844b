import type { LogPlace, Mark, Place } from "../../protocol/rpc.ts";

/**
 * Where a reader of an event stream is: how many of the connection's own messages it has had, and how far it
 * is in the session's log since which attachment. Each event's id says all of it, so any of them is enough to
 * go on from.
 */
export type StreamPlace = { readonly sent: number; readonly log: LogPlace | null };

export function eventId({ sent, log }: StreamPlace): string {
  return log ? `${sent}-${log.attach}.${log.place.upTo}.${log.place.skip}` : String(sent);
}

export function parseEventId(text: string): StreamPlace | undefined {
  const match = /^(\d{1,15})(?:-(\d{1,15})\.(\d{1,15})\.(\d{1,15}))?$/.exec(text);
  if (!match) return undefined;
  const [sent = 0, attach, upTo = 0, skip = 0] = match.slice(1).map((n) => (n === undefined ? n : Number(n)));
  return { sent, log: attach === undefined ? null : { attach, place: { upTo, skip } } };
}

/** The place right after a frame. */
export function after({ seq, part }: Mark): Place {
  return part === null ? { upTo: seq, skip: 0 } : { upTo: seq - 1, skip: part + 1 };
}

export function samePlace(a: LogPlace, b: LogPlace): boolean {
  return a.attach === b.attach && a.place.upTo === b.place.upTo && a.place.skip === b.place.skip;
}
