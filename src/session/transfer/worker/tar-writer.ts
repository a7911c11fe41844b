import { createTarPacker, type TarPackController } from "modern-tar";
import { type SegmentCursor, type SegmentPage, segmentName } from "../object/segments.ts";
import { TurnIndex } from "../turn-index.ts";

/** Where the segments come from, piece by piece. */
export type SegmentSource = (cursor: SegmentCursor, upTo: number) => Promise<SegmentPage | null>;

/**
 * The directory of the acpx session model as a tar, written while it is read. The events come first: they
 * are the session, and only with the last of them is it known which segment is the active one.
 */
export function archiveOf(
  projection: string,
  upTo: number,
  source: SegmentSource,
): ReadableStream<Uint8Array> {
  const { readable, controller } = createTarPacker();
  write(controller, projection, upTo, source).catch((error: unknown) => controller.error(error));
  return readable;
}

async function write(
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
    // A tar says how long a file is before it begins: so one segment is held, never more.
    const pieces: Uint8Array[] = [];
    let cursor: SegmentCursor = { after, bytes: 0, events: 0 };
    for (let ends = false; !ends; ) {
      const page = await source(cursor, upTo);
      if (!page || page.bytes.length === 0) throw new Error("The log ended early");
      pieces.push(page.bytes);
      turns.add(page.turns, name);
      ({ cursor, ends } = page);
    }
    after = cursor.after;
    await addFile(tar, name, pieces);
  }
  const activeSegment = segmentName(Math.max(segments, 1));
  await addJson(tar, "session.json", withActiveSegment(projection, activeSegment));
  await addJson(tar, "index/turns.json", turns.list());
  await addJson(tar, "index/latest.json", { lastSeq: upTo, nextSeq: upTo + 1, activeSegment, segments });
  tar.finalize();
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

/** The one thing a session cannot say of itself: it keeps no files. */
function withActiveSegment(projection: string, activeSegment: string): unknown {
  const session = JSON.parse(projection) as { log?: Record<string, unknown> };
  return { ...session, log: { ...session.log, activeSegment } };
}
