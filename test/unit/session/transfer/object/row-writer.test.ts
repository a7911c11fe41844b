import fc from "fast-check";
import { ulid } from "ulid";
import { describe, expect, test } from "vitest";
import { textChunks } from "../../../../../src/durable/text-chunks.ts";
import { DEFAULT_LIMITS } from "../../../../../src/protocol/limits.ts";
import { isLineFault, readEnvelope, withRecordId } from "../../../../../src/session/core/events/envelope.ts";
import {
  envelope,
  eventId,
  eventIdPrefix,
  type LogEvent,
} from "../../../../../src/session/core/events/event.ts";
import { eventsInRow, type NewRow, type Row, rowsOf } from "../../../../../src/session/log/row-format.ts";
import { RowWriter } from "../../../../../src/session/transfer/object/row-writer.ts";
import { propertyRuns } from "../../../../fixtures/property-runs.ts";

const SESSION = "11111111-2222-4333-8444-555555555555";

/** Rows as storage keeps them: a text that is too long for a row is stored in parts. */
class Rows {
  readonly rows: (Row & { parts: string[] })[] = [];

  add(ids: string, { seq, at, context, heads, texts }: NewRow): void {
    const [body = "", ...parts] = textChunks(texts.join(""), DEFAULT_LIMITS.rowChars);
    this.rows.push({
      seq,
      at,
      ids,
      context: JSON.stringify(context),
      heads: `[${heads.join(",")}]`,
      body,
      parts,
    });
  }

  lines(): string[] {
    return this.rows.flatMap((row) =>
      [...eventsInRow(row, 0, () => row.parts.join(""))].map(({ line }) => line(SESSION)),
    );
  }
}

function stored(lines: readonly string[]): Rows {
  const log = new Rows();
  const writer = new RowWriter(SESSION, DEFAULT_LIMITS.rowChars, (ids, row) => log.add(ids, row));
  for (const line of lines) {
    const read = readEnvelope(line);
    if (isLineFault(read)) throw new Error(read.fault);
    writer.write(read);
  }
  writer.end();
  return log;
}

// ---- lines of any origin ------------------------------------------------------------------------------

const name = fc.oneof(fc.constantFrom("message", "direction", "payload", "_meta", "1", "2"), fc.string());
const space = fc.constantFrom("", "", " ", "\t", "  ", "\r");
const number = fc.constantFrom("0", "-0", "1.0", "1e400", "12345678901234567890", "0.1000", "1E+2");

/** JSON text that JSON.stringify would not give: odd numbers, white space, escapes, repeated keys. */
const json = fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    number,
    fc.constantFrom("null", "true", "false", '"\\u00e9\\/\\ud83d"', '"€😀"'),
    fc.string().map((s) => JSON.stringify(s)),
    tie("object"),
    tie("array"),
  ),
  object: fc
    .array(fc.tuple(name, tie("value"), space, space), { maxLength: 4 })
    .map(
      (members) => `{${members.map(([k, v, a, b]) => `${a}${JSON.stringify(k)}${b}:${a}${v}`).join(",")}}`,
    ),
  array: fc.array(tie("value"), { maxLength: 3 }).map((items) => `[${items.join(",")}]`),
}));

const framePayload = fc
  .tuple(fc.constantFrom('"in"', '"out"', '"sideways"'), json.object, json.value, fc.boolean(), fc.boolean())
  .map(([direction, message, extra, isFirst, hasExtra]) => {
    const members = [`"direction":${direction}`, `"message":${message}`];
    if (!isFirst) members.reverse();
    return `{${[...members, ...(hasExtra ? [`"extra":${extra}`] : [])].join(",")}}`;
  });

const foreignLine = fc.record({
  kind: fc.constantFrom("acp.frame", "turn.started", "vendor.unheard_of"),
  payload: fc.oneof(framePayload, json.object),
  id: fc.oneof(fc.constantFrom("x", "01J4ZZZZZZZZZZZZZZZZZ00000"), fc.string({ minLength: 1 })),
  source: fc.constantFrom('"acpx"', '"agent"', '"client"', "null"),
  future: fc.option(json.value, { nil: undefined }),
  gap: space,
});

type ForeignLine = typeof foreignLine extends fc.Arbitrary<infer Value> ? Value : never;

function lineOf(seq: number, { kind, payload, id, source, future, gap }: ForeignLine): string {
  const members = [
    `"schema":"acpx.event.v1"`,
    `"seq":${gap}${seq}`,
    `"eventId":${JSON.stringify(id)}`,
    `"at":"2026-02-27T10:11:12.345Z"`,
    `"acpxRecordId":"${SESSION}"`,
    `"source":${source}`,
    `"kind":"${kind}"`,
    `"payload":${gap}${payload}`,
    ...(future === undefined ? [] : [`"future":${future}`]),
  ];
  return `{${members.join(",")}}${gap}`;
}

describe("the lines of another system", () => {
  test("come out of storage as they went in, whatever their content", () => {
    fc.assert(
      fc.property(fc.array(foreignLine, { minLength: 1, maxLength: 20 }), (parts) => {
        const lines = parts.map((part, i) => lineOf(i + 1, part));
        expect(stored(lines).lines()).toEqual(lines);
      }),
      propertyRuns(500),
    );
  });

  test("[I8] share rows, and no row grows past its limit", () => {
    const lines = Array.from({ length: 5000 }, (_, i) =>
      lineOf(i + 1, {
        kind: "vendor.unheard_of",
        payload: "{}",
        id: `e${i}`,
        source: '"acpx"',
        future: "1",
        gap: "",
      }),
    );
    const log = stored(lines);
    expect(log.rows.length).toBeLessThan(5);
    expect(log.lines()).toEqual(lines);
    for (const row of log.rows)
      expect(row.body.length + row.heads.length).toBeLessThan(DEFAULT_LIMITS.rowChars + 10);
  });

  test("may be longer than a row", () => {
    const payload = `{"text":"${"😀".repeat(DEFAULT_LIMITS.rowChars)}"}`;
    const line = lineOf(1, {
      kind: "vendor.unheard_of",
      payload,
      id: "e",
      source: '"acpx"',
      future: "1",
      gap: "",
    });
    const log = stored([line]);
    expect(log.rows[0]?.parts.length).toBeGreaterThan(1);
    expect(log.lines()[0] === line).toBe(true);
  });

  test("keep the companion fields of a frame that fill a row by themselves", () => {
    const message = '{"jsonrpc":"2.0","method":"_x"}';
    const payload = `{"direction":"in","message":${message},"extra":"${"x".repeat(3_000_000)}"}`;
    const line = lineOf(1, {
      kind: "acp.frame",
      payload,
      id: `${"0".repeat(26)}`,
      source: '"agent"',
      future: undefined,
      gap: "",
    });
    const log = stored([line]);
    expect(log.rows[0]?.heads.length).toBeLessThan(100);
    expect(log.lines()[0] === line).toBe(true);
  });
});

// ---- our own ------------------------------------------------------------------------------------------

function ownEvents(): LogEvent[] {
  const contexts = [
    { acpSessionId: null, agentSessionId: null, turnId: null },
    { acpSessionId: "a", agentSessionId: null, turnId: "turn_1" },
  ];
  return Array.from({ length: 60 }, (_, i) => ({
    seq: i + 1,
    at: 1_790_000_000_000 + Math.floor(i / 10) * 7,
    context: contexts[i % 20 < 7 ? 0 : 1] as (typeof contexts)[0],
    source: "gateway" as const,
    kind: "vendor.note",
    payload: { i },
    foreign: true as const,
    ...(i % 9 === 0 ? { requestId: `req_${i}` } : {}),
  }));
}

describe("the lines of our own export", () => {
  test("[I8] return to the rows they came from", () => {
    const before = new Rows();
    for (const row of rowsOf(ownEvents(), DEFAULT_LIMITS.rowChars))
      before.add(eventIdPrefix(ulid(row.at)), row);
    const after = stored(before.lines());
    expect(after.rows).toEqual(before.rows);
    expect(stored(after.lines()).rows).toEqual(before.rows);
  });

  test("are stored separately where their place in a row does not fit", () => {
    const [event] = ownEvents();
    const line = envelope(event as LogEvent, SESSION, eventId("01J4ABCDEFGHJKMNPQRST", 3));
    const log = stored([line]);
    expect(log.rows[0]?.ids).toBe("");
    expect(log.lines()).toEqual([line]);
  });
});

describe("a line imported under a new record id", () => {
  test("changes in that place only", () => {
    const line = `{"payload":{"acpxRecordId":"${SESSION}"},"acpxRecordId" : "${SESSION}","x":1.0}`;
    expect(withRecordId(line, "new")).toBe(
      `{"payload":{"acpxRecordId":"${SESSION}"},"acpxRecordId" : "new","x":1.0}`,
    );
  });
});
