import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../../../src/protocol/limits.ts";
import type { SegmentCursor } from "../../../../../src/protocol/rpc.ts";
import { readFact } from "../../../../../src/session/core/events/fact-reader.ts";
import type { Envelope } from "../../../../../src/session/log/row-format.ts";
import { segmentPage } from "../../../../../src/session/transfer/object/segments.ts";
import { type ImportSink, readSessionTar } from "../../../../../src/session/transfer/worker/tar-reader.ts";
import { sessionTar } from "../../../../../src/session/transfer/worker/tar-writer.ts";

/** Compares our archives with those of the operating system's `tar`. */

const run = promisify(execFile);
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "acp-edge-tar-"));
});
afterAll(() => rm(dir, { recursive: true }));

const ID = "11111111-2222-4333-8444-555555555555";

function line(seq: number, more: Record<string, unknown> = {}): string {
  const at = "2026-02-27T10:11:12.345Z";
  return JSON.stringify({
    schema: "acpx.event.v1",
    seq,
    eventId: `e${seq}`,
    at,
    acpxRecordId: ID,
    kind: "x",
    payload: {},
    ...more,
  });
}

function envelopes(lines: readonly string[], after: number, kinds: Record<number, string> = {}): Envelope[] {
  const context = { acpSessionId: null, agentSessionId: null, turnId: null };
  return lines.slice(after).map((text, i) => {
    const seq = after + i + 1;
    return {
      seq,
      line: text,
      event: () => readFact({ seq, at: 0, context, source: "acpx" }, kinds[seq] ?? "x", { turnId: "t" }),
    };
  });
}

async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer());
}

function archive(lines: readonly string[], kinds: Record<number, string> = {}): ReadableStream<Uint8Array> {
  return sessionTar(JSON.stringify({ log: { lastSeq: lines.length } }), lines.length, async (cursor, upTo) =>
    segmentPage(envelopes(lines, cursor.after, kinds), cursor, upTo, 1_000_000),
  );
}

describe("tar", () => {
  test("lists and unpacks our archives", async () => {
    const lines = Array.from({ length: 12_000 }, (_, i) => line(i + 1, { payload: { text: `é ${i}` } }));
    const file = join(dir, "ours.tar");
    await writeFile(file, await collect(archive(lines, { 3: "turn.started", 10500: "turn.completed" })));
    const { stdout } = await run("tar", ["-tf", file]);
    expect(stdout.trim().split("\n")).toEqual([
      "events/000000000001.ndjson",
      "events/000000000002.ndjson",
      "session.json",
      "index/turns.json",
      "index/latest.json",
    ]);
    const out = join(dir, "out");
    await mkdir(out);
    await run("tar", ["-xf", file, "-C", out]);
    const texts = await Promise.all(
      [1, 2].map((n) => readFile(join(out, `events/00000000000${n}.ndjson`), "utf8")),
    );
    expect(texts.join("")).toBe(lines.map((text) => `${text}\n`).join(""));
    expect(JSON.parse(await readFile(join(out, "session.json"), "utf8"))).toMatchObject({
      log: { lastSeq: 12_000, activeSegment: "events/000000000002.ndjson" },
      acpProjection: { schema: "acpx.session.acp.v1", lastSeq: 12_000 },
      turnHistory: [],
    });
    expect(JSON.parse(await readFile(join(out, "index/turns.json"), "utf8"))).toMatchObject([
      {
        turnId: "t",
        startSeq: 3,
        startSegment: "events/000000000001.ndjson",
        endSeq: 10_500,
        status: "completed",
      },
    ]);
  });

  test.each(["gnu", "ustar", "pax"])("makes archives that we can read (%s)", async (format) => {
    const root = join(dir, `${format}-sessions`);
    await mkdir(join(root, ID, "events"), { recursive: true });
    await mkdir(join(root, ID, "index"));
    const first = `${line(1)}\n${line(2)}\n`;
    await writeFile(join(root, ID, "events/000000000001.ndjson"), first);
    await writeFile(join(root, ID, "events/000000000002.ndjson"), line(3));
    await writeFile(
      join(root, ID, "session.json"),
      JSON.stringify({ acpxRecordId: ID, log: { lastSeq: 3 } }),
    );
    await writeFile(join(root, ID, "index/turns.json"), "not even JSON");
    const file = join(dir, `${format}.tar`);
    await run("tar", ["--sort=name", `--format=${format}`, "-cf", file, "-C", root, ID]);
    const sink = new Sink();
    await readSessionTar(new Blob([await readFile(file)]).stream(), DEFAULT_LIMITS, sink);
    expect(sink).toMatchObject({ recordId: ID, claimed: { recordId: ID, lastSeq: 3 } });
    expect(sink.files).toEqual({
      "events/000000000001.ndjson": first,
      "events/000000000002.ndjson": line(3),
    });
  });
});

class Sink implements ImportSink {
  recordId = "";
  claimed: unknown;
  files: Record<string, string> = {};

  get hasBegun(): boolean {
    return this.recordId !== "";
  }

  async begin(recordId: string): Promise<void> {
    this.recordId = recordId;
  }

  async write(file: string, bytes: Uint8Array): Promise<void> {
    this.files[file] = (this.files[file] ?? "") + new TextDecoder().decode(bytes);
  }

  claim(claimed: unknown): void {
    this.claimed = claimed;
  }
}

describe("an archive that nobody reads", () => {
  test("stops reading the log", async () => {
    let pages = 0;
    const bytes = new Uint8Array(1_000_000);
    const stream = sessionTar('{"log":{}}', 1000, async ({ after, events, bytes: had }: SegmentCursor) => {
      pages += 1;
      const cursor = { after: after + 1, events: events + 1, bytes: had + bytes.length };
      return { bytes, cursor, ends: events === 7, turns: [] };
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const ahead = pages;
    expect(ahead).toBeLessThan(30);
    const reader = stream.getReader();
    for (let i = 0; i < 100; i += 1) await reader.read();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(pages).toBeLessThan(100 + ahead + 10);
    await reader.cancel();
  });
});
