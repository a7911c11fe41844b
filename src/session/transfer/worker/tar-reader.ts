import { createTarDecoder } from "modern-tar";
import { LIMITS } from "../../../protocol/limits.ts";
import { isLineFault, readEnvelope } from "../../core/events/envelope.ts";
import { ArchiveError } from "../archive-fault.ts";
import { concat } from "../byte-line-splitter.ts";

/** Where the contents of an archive go. */
export type ArchiveSink = {
  readonly begun: boolean;
  /** The session the archive is of, as its first event says. */
  begin(recordId: string, file: string): Promise<void>;
  write(file: string, bytes: Uint8Array): Promise<void>;
  claim(recordId: string | undefined, lastSeq: number): void;
};

/**
 * Reads the tar of a session directory while it arrives. Only the events count: `session.json` serves as a
 * check on them, indexes and anything else are left aside. Faults are ArchiveErrors.
 */
export async function readArchive(tar: ReadableStream<Uint8Array>, sink: ArchiveSink): Promise<void> {
  for await (const { header, body } of each(tar.pipeThrough(createTarDecoder({ strict: true })), null)) {
    const file = FILES.exec(header.name)?.[1];
    if (header.type !== "file" || file === undefined) await body.cancel();
    else if (file === "session.json")
      readClaim(file, await readBytes(body, file, LIMITS.importFileBytes), sink);
    else await readSegment(file, body, sink);
  }
}

/** In the archive's root or in a directory of its own. */
const FILES = /^(?:\.?\/)?(?:[^/]+\/)??(session\.json|events\/\d{1,15}\.ndjson)$/;

async function readSegment(file: string, body: ReadableStream<Uint8Array>, sink: ArchiveSink): Promise<void> {
  let pieces: Uint8Array[] = [];
  let size = 0;
  let hasLine = false;
  const flush = async () => {
    const bytes = concat(pieces);
    pieces = [];
    size = 0;
    if (!sink.begun) await sink.begin(firstRecordId(file, bytes), file);
    await sink.write(file, bytes);
  };
  for await (const piece of each(body, file)) {
    pieces.push(piece);
    size += piece.length;
    hasLine ||= piece.includes(LINE_FEED);
    if (size > LIMITS.importLineBytes)
      throw new ArchiveError(`longer than ${LIMITS.importLineBytes} bytes`, file, 1);
    // The first line says where all of it goes.
    if (size >= LIMITS.importChunkBytes && (sink.begun || hasLine)) await flush();
  }
  if (size > 0) await flush();
}

function firstRecordId(file: string, bytes: Uint8Array): string {
  const end = bytes.indexOf(LINE_FEED);
  const line = new TextDecoder().decode(end === -1 ? bytes : bytes.subarray(0, end));
  const read = readEnvelope(line);
  if (isLineFault(read)) throw new ArchiveError(read.fault, file, 1);
  return read.recordId;
}

function readClaim(file: string, bytes: Uint8Array, sink: ArchiveSink): void {
  let session: { acpxRecordId?: unknown; log?: { lastSeq?: unknown } | null } | null;
  try {
    session = JSON.parse(new TextDecoder().decode(bytes)) as typeof session;
  } catch (error) {
    throw new ArchiveError(`not valid JSON: ${(error as Error).message}`, file, 1);
  }
  const { acpxRecordId, log } = session ?? {};
  sink.claim(
    typeof acpxRecordId === "string" ? acpxRecordId : undefined,
    typeof log?.lastSeq === "number" ? log.lastSeq : 0,
  );
}

/** All of a stream that should not be long. */
export async function readBytes(
  body: ReadableStream<Uint8Array>,
  file: string | null,
  maxBytes: number,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of each(body, file)) {
    size += piece.length;
    if (size > maxBytes) throw new ArchiveError(`larger than ${maxBytes} bytes`, file);
    pieces.push(piece);
  }
  return concat(pieces);
}

/** The pieces of a stream; what goes wrong with it is the archive's fault. */
async function* each<T>(stream: ReadableStream<T>, file: string | null): AsyncGenerator<T> {
  const reader = stream.getReader();
  let isOver = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield value;
    }
    isOver = true;
  } catch (error) {
    isOver = true;
    if (error instanceof ArchiveError) throw error;
    throw new ArchiveError(`not a whole tar archive: ${(error as Error).message}`, file);
  } finally {
    if (!isOver) await reader.cancel().catch(() => {});
    reader.releaseLock();
  }
}

const LINE_FEED = 0x0a;
