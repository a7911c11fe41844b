import { createTarDecoder } from "modern-tar";
import { isRecord, recordOf, textOf } from "../../../protocol/json-value.ts";
import type { Limits } from "../../../protocol/limits.ts";
import { isLineFault, readEnvelope } from "../../core/events/envelope.ts";
import { concatBytes } from "../concat-bytes.ts";
import { ImportError } from "../import-error.ts";

type ImportLimits = Pick<Limits, "importFileBytes" | "importLineBytes" | "importChunkBytes">;

/** Receives the contents of a session archive file. */
export type ImportSink = {
  readonly hasBegun: boolean;
  /** Names the session of the archive, as the first event gives it. Called before any `write`. */
  begin(recordId: string, file: string): Promise<void>;
  write(file: string, bytes: Uint8Array): Promise<void>;
  /** Passes on what `session.json` says about the events, or why it says nothing. */
  claim(claim: SessionClaim | { fault: string }): void;
};

/** The session and the last event, as `session.json` names them. */
export type SessionClaim = { recordId: string | undefined; lastSeq: number };

/**
 * Reads the tar of a session directory while it arrives. Only the events are imported: `session.json` serves as a
 * check on them, and all other files are skipped. Throws an `ImportError` if the tar is faulty.
 */
export async function readSessionTar(
  tar: ReadableStream<Uint8Array>,
  limits: ImportLimits,
  sink: ImportSink,
): Promise<void> {
  for await (const { header, body } of each(tar.pipeThrough(createTarDecoder({ strict: true })), null)) {
    const file = FILES.exec(header.name)?.[1];
    if (header.type !== "file" || file === undefined) await body.cancel();
    else if (file === "session.json")
      sink.claim(readClaim(await readBytes(body, file, limits.importFileBytes)));
    else await readSegment(file, body, limits, sink);
  }
}

/** The files of a session directory, in the root of the tar or in one directory below it. */
const FILES = /^(?:\.?\/)?(?:[^/]+\/)??(session\.json|events\/\d{1,15}\.ndjson)$/;

async function readSegment(
  file: string,
  body: ReadableStream<Uint8Array>,
  { importLineBytes, importChunkBytes }: ImportLimits,
  sink: ImportSink,
): Promise<void> {
  let pieces: Uint8Array[] = [];
  let size = 0;
  let hasLine = false;
  const flush = async () => {
    const bytes = concatBytes(pieces);
    pieces = [];
    size = 0;
    if (!sink.hasBegun) await sink.begin(firstRecordId(file, bytes), file);
    await sink.write(file, bytes);
  };
  for await (const piece of each(body, file)) {
    pieces.push(piece);
    size += piece.length;
    hasLine ||= piece.includes(LINE_FEED);
    if (size > importLineBytes) throw new ImportError(`longer than ${importLineBytes} bytes`, file, 1);
    // Nothing is passed on before the first line is complete: that line says which object takes the session.
    if (size >= importChunkBytes && (sink.hasBegun || hasLine)) await flush();
  }
  if (size > 0) await flush();
}

function firstRecordId(file: string, bytes: Uint8Array): string {
  const end = bytes.indexOf(LINE_FEED);
  const line = new TextDecoder().decode(end === -1 ? bytes : bytes.subarray(0, end));
  const read = readEnvelope(line);
  if (isLineFault(read)) throw new ImportError(read.fault, file, 1);
  return read.recordId;
}

/** The events are authoritative: a `session.json` that cannot be read costs a warning and nothing else. */
function readClaim(bytes: Uint8Array): SessionClaim | { fault: string } {
  let session: unknown;
  try {
    session = JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    return { fault: `not valid JSON: ${(error as Error).message}` };
  }
  if (!isRecord(session)) return { fault: "not a JSON object" };
  const { acpxRecordId, log } = session;
  const { lastSeq } = recordOf(log);
  return { recordId: textOf(acpxRecordId), lastSeq: typeof lastSeq === "number" ? lastSeq : 0 };
}

/** Reads a whole stream into memory. Throws an `ImportError` when it is longer than `maxBytes`. */
export async function readBytes(
  body: ReadableStream<Uint8Array>,
  file: string | null,
  maxBytes: number,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of each(body, file)) {
    size += piece.length;
    if (size > maxBytes) throw new ImportError(`larger than ${maxBytes} bytes`, file);
    pieces.push(piece);
  }
  return concatBytes(pieces);
}

/** The pieces of a stream. An error of the stream means a broken tar, so it becomes an `ImportError`. */
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
    if (error instanceof ImportError) throw error;
    throw new ImportError(`not a whole tar archive: ${(error as Error).message}`, file);
  } finally {
    if (!isOver) await reader.cancel().catch(() => {});
    reader.releaseLock();
  }
}

const LINE_FEED = 0x0a;
