import { notification } from "../../../protocol/errors.ts";
import { MetaKey } from "../../../protocol/extensions.ts";
import { type Frame, paramsOf } from "../../../protocol/frame.ts";
import { isRecord, type JsonObject, recordOf } from "../../../protocol/json-value.ts";
import { FACTS } from "../events/catalogue.ts";
import { type FrameEvent, isFact, isFrame, type LogEvent } from "../events/event.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";
import { forClient, isOwn, type Viewer } from "./for-client.ts";

/** Attachments of clients to the log, and the replay of events from before an attachment. */

/**
 * A client's attachment to the session. `seq` is the event of the request that attached the client: up to it, the
 * client gets a replay. `start` is the event after which it reads. `merge` joins the chunks of a message, so that a
 * long history loads fast. `offers` are the agent's requests that were open then: the client gets them as well. `as`
 * is the lost connection that the client continues: from `start` on it gets all that the lost one would have got.
 */
export type Attachment = {
  seq: number;
  start: number;
  merge: boolean;
  offers: readonly number[];
  as?: string | undefined;
};

/**
 * The attachment that a client's request makes. Loading reads from the beginning and resuming from here; both read from
 * a cursor if the request names one. A client that sends any other request first is attached here, with its own request
 * included, because it waits for the answer.
 */
export function attachmentFor(
  frame: Frame,
  seq: number,
  attached: boolean,
  offers: readonly number[],
): Attachment | undefined {
  const load = frame.method === "session/load";
  const after = cursorOf(frame);
  const asks = load || frame.method === "session/resume";
  if (!asks || (after !== null && !validCursor(after, seq))) {
    return attached ? undefined : { seq: seq - 1, start: seq - 1, merge: false, offers };
  }
  const as = metaOf(frame)[MetaKey.as];
  if (typeof as === "string" && as.length <= STATE_BUDGET.idChars && after !== null)
    return { seq, start: after as number, merge: false, offers: [], as };
  return { seq, start: after ?? (load ? 0 : seq), merge: load && after === null, offers };
}

/** Whether this event admits the client that attached at `attach`: by the answer to its request, or by its own frame. */
export function admits(event: LogEvent, connection: string, attach: number): boolean {
  if (!isFrame(event)) return false;
  const { to, re, connection: from } = event.route;
  return (to === connection && re === attach) || (event.seq === attach + 1 && from === connection);
}

/** The reason why the cursor of a session/load or session/resume is not valid, if there is one. */
export function badCursor(frame: Frame, seq: number): string | undefined {
  const after = cursorOf(frame);
  if (after === null || validCursor(after, seq)) return undefined;
  return `_meta["${MetaKey.after}"] must be a sequence number of this session, at most ${seq - 1}`;
}

function cursorOf(frame: Frame): unknown {
  return metaOf(frame)[MetaKey.after] ?? null;
}

function metaOf(frame: Frame): JsonObject {
  return recordOf(paramsOf(frame)._meta);
}

function validCursor(after: unknown, seq: number): after is number {
  return typeof after === "number" && Number.isInteger(after) && after >= 0 && after < seq;
}

/** Frames for a client, and the event that each of them renders. */
export type RenderedFrames = { readonly texts: string[]; readonly seqs: number[] };

/**
 * Frames for a client from a page of the log. Consecutive text chunks of one message become one frame, which counts as
 * rendering the last of their events. A frame takes no more chunks once it has `maxChars`.
 */
export function mergeChunks(
  events: readonly LogEvent[],
  sessionId: string,
  viewer: Viewer,
  maxChars: number,
): RenderedFrames {
  const texts: string[] = [];
  const seqs: number[] = [];
  let run: Run | undefined;
  const put = (frame: string, seq: number) => {
    texts.push(frame);
    seqs.push(seq);
  };
  const flush = () => {
    if (run) put(run.texts.length === 1 ? run.first : joined(run, sessionId), run.last);
    run = undefined;
  };
  for (const event of events) {
    const frames = forClient(event, sessionId, viewer);
    const chunk = event.seq <= viewer.replayUntil && isFrame(event) ? chunkOf(event) : undefined;
    if (!chunk || frames.length !== 1) {
      // A turn that begins or ends closes a message even if nothing of it is shown.
      if (frames.length > 0 || (isFact(event) && FACTS[event.kind].turn !== undefined)) flush();
      for (const frame of frames) put(frame, event.seq);
      continue;
    }
    if (run && (run.kind !== chunk.kind || run.messageId !== chunk.messageId || run.chars > maxChars))
      flush();
    run ??= { ...chunk, first: frames[0] as string, texts: [], chars: 0, last: event.seq };
    run.texts.push(chunk.text);
    run.last = event.seq;
    run.chars += chunk.text.length;
  }
  flush();
  return { texts, seqs };
}

type Chunk = { kind: string; messageId: unknown; text: string };
type Run = Omit<Chunk, "text"> & { first: string; texts: string[]; chars: number; last: number };

/** A text chunk that has nothing but its text. Only such chunks can be joined without loss. */
function chunkOf(event: FrameEvent): Chunk | undefined {
  const { frame, source } = event;
  const params = paramsOf(frame);
  const { update } = params;
  if (source !== "agent" || !isRecord(update) || !onlyKeys(params, ["sessionId", "update"])) return undefined;
  // The chunks of a sub-agent are not this session's.
  if (!isOwn(event)) return undefined;
  const { sessionUpdate: kind, content, messageId } = update;
  if (
    typeof kind !== "string" ||
    !CHUNKS.has(kind) ||
    !onlyKeys(update, ["sessionUpdate", "content", "messageId"])
  )
    return undefined;
  if (!isRecord(content) || content.type !== "text" || !onlyKeys(content, ["type", "text"])) return undefined;
  const { text } = content;
  if (typeof text !== "string") return undefined;
  return { kind, messageId, text };
}

const CHUNKS: ReadonlySet<string> = new Set([
  "agent_message_chunk",
  "agent_thought_chunk",
  "user_message_chunk",
]);

function onlyKeys(value: object, keys: readonly string[]): boolean {
  return Object.keys(value).every((key) => keys.includes(key));
}

function joined({ kind, messageId, texts }: Run, sessionId: string): string {
  const content = { type: "text", text: texts.join("") };
  const update = { sessionUpdate: kind, content, ...(messageId === undefined ? {} : { messageId }) };
  return notification("session/update", { sessionId, update });
}
