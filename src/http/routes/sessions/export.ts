import type { Caller } from "../../../protocol/caller.ts";
import { readable } from "../../../protocol/versions.ts";
import { sessionTar } from "../../../session/transfer/worker/tar-writer.ts";
import { Transcript } from "../../../session/transfer/worker/transcript.ts";
import { unwrap } from "../../refusal-response.ts";
import type { AskSession } from "../../targets.ts";

/**
 * A session as a file. The file is written page by page while the log is read, up to the event that was the last when
 * the export was requested.
 */

type Bytes = ReadableStream<Uint8Array>;

/** The log, unchanged. */
export function exportEvents(ask: AskSession, caller: Caller, projection: string): Bytes {
  return streamOf(encoded(eventPages(ask, caller, lastSeqOf(projection))));
}

/** The conversation as Markdown. */
export function exportTranscript(ask: AskSession, caller: Caller, projection: string): Bytes {
  const transcript = new Transcript(JSON.parse(projection) as Record<string, unknown>);
  async function* texts() {
    yield transcript.start();
    for await (const page of eventPages(ask, caller, lastSeqOf(projection))) {
      const lines = page.split("\n").filter((line) => line !== "");
      yield lines.map((line) => transcript.push(JSON.parse(line) as Record<string, unknown>)).join("");
    }
    yield transcript.end();
  }
  return streamOf(encoded(texts()));
}

/** The session directory of the acpx session model, as a tar. */
export function exportArchive(ask: AskSession, caller: Caller, projection: string): Bytes {
  return sessionTar(projection, lastSeqOf(projection), async (cursor, upTo) =>
    readable(unwrap(await ask((session) => session.segment(caller, cursor, upTo))), "A segment of the log"),
  );
}

async function* eventPages(ask: AskSession, caller: Caller, upTo: number): AsyncGenerator<string> {
  for (let after = 0; after < upTo; ) {
    const events = await ask((session) => session.events(caller, after, upTo - after));
    const page = readable(unwrap(events), "A page of the log");
    if (page.count === 0) throw new Error("The log ended early");
    yield page.text;
    after = page.last;
  }
}

async function* encoded(texts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for await (const text of texts) if (text !== "") yield encoder.encode(text);
}

function streamOf(pieces: AsyncGenerator<Uint8Array>): Bytes {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await pieces.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await pieces.return(undefined);
    },
  });
}

function lastSeqOf(projection: string): number {
  return (JSON.parse(projection) as { log: { lastSeq: number } }).log.lastSeq;
}
