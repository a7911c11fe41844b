import { createTarPacker, type TarPackController } from "modern-tar";
import type { SegmentCursor, SegmentPage } from "../../../protocol/rpc.ts";
import { acpxMembers } from "./acpx-members.ts";
import { TurnIndex } from "./turn-index.ts";

/** Reads the next piece of a segment from the session's object. */
export type SegmentSource = (cursor: SegmentCursor, upTo: number) => Promise<SegmentPage>;

/**
 * The session archive file: the directory of the acpx session model as a tar, written while it is read. The events
 * come first because the other files name the active segment, which is known only after the last event.
 */
export function sessionTar(
  projection: string,
  upTo: number,
  source: SegmentSource,
): ReadableStream<Uint8Array> {
  const { readable, controller } = createTarPacker();
  writeFiles(controller, projection, upTo, source).catch((error: unknown) => controller.error(error));
  return readable;
}

async function writeFiles(
  tar: TarPackController,
  projection: string,
  upTo: number,
  source: SegmentSource,
): Promise<void> {
  const turns = new TurnIndex();
  let segments = 0;
  for (let after = 0; after < upTo; ) {
    segments += 1;
    const name = segmentName(segments);
    // A tar states the length of a file before its contents, so one whole segment is held in memory, never more.
    const pieces: Uint8Array[] = [];
    let cursor: SegmentCursor = { after, bytes: 0, events: 0 };
    for (let ends = false; !ends; ) {
      const page = await source(cursor, upTo);
      if (page.bytes.length === 0) throw new Error("The log ended early");
      pieces.push(page.bytes);
      turns.add(page.turns, name);
      ({ cursor, ends } = page);
    }
    after = cursor.after;
    await addFile(tar, name, pieces);
  }
  const activeSegment = segmentName(Math.max(segments, 1));
  await addJson(tar, "session.json", sessionFile(projection, activeSegment));
  await addJson(tar, "index/turns.json", turns.list());
  await addJson(tar, "index/latest.json", { lastSeq: upTo, nextSeq: upTo + 1, activeSegment, segments });
  tar.finalize();
}

function segmentName(number: number): string {
  return `events/${String(number).padStart(12, "0")}.ndjson`;
}

async function addFile(tar: TarPackController, name: string, pieces: readonly Uint8Array[]): Promise<void> {
  const size = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const writer = tar.add({ name, size, type: "file", mode: 0o644 }).getWriter();
  for (const piece of pieces) await writer.write(piece);
  await writer.close();
}

function addJson(tar: TarPackController, name: string, value: unknown): Promise<void> {
  return addFile(tar, name, [new TextEncoder().encode(`${JSON.stringify(value)}\n`)]);
}

/** `session.json`. The session's own projection lacks the active segment because its object keeps rows, not files. */
function sessionFile(projection: string, activeSegment: string): unknown {
  const session = JSON.parse(projection) as { log?: Record<string, unknown> };
  return { ...session, log: { ...session.log, activeSegment }, ...acpxMembers(session) };
}
