import { describe, expect, test } from "vitest";
import { mustReadFrame } from "../../../../src/protocol/frame.ts";
import { type Context, envelope, eventId, type LogEvent } from "../../../../src/session/core/events/event.ts";
import { eventsInRow, type NewRow, type Row, rowsOf } from "../../../../src/session/log/row-format.ts";

const SESSION = "11111111-2222-4333-8444-555555555555";
const IDS = "01J4ABCDEFGHJKMNPQRST";
const CONTEXT: Context = { acpSessionId: "a", agentSessionId: "b", turnId: null };

function agentFrame(seq: number, text: string, more: { at?: number; context?: Context } = {}): LogEvent {
  const frame = mustReadFrame(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params: { text } }));
  const { at = 1000, context = CONTEXT } = more;
  return { seq, at, context, source: "agent", kind: "acp.frame", direction: "in", frame, route: {} };
}

function clientFrame(seq: number): LogEvent {
  const frame = mustReadFrame('{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}');
  return {
    ...{ seq, at: 1000, context: CONTEXT, requestId: `req_${seq}`, source: "client" },
    ...{ kind: "acp.frame", direction: "out", frame, route: { connection: "c1" } },
  } as LogEvent;
}

function closed(seq: number): LogEvent {
  const base = { seq, at: 1000, context: CONTEXT, source: "gateway" } as const;
  return { ...base, kind: "session.closed", payload: { by: "c1" } };
}

function foreign(seq: number): LogEvent {
  const base = { seq, at: 1000, context: CONTEXT, source: "gateway" } as const;
  return { ...base, kind: "elsewhere.happened", payload: { odd: [1, null] }, foreign: true };
}

function stored({ seq, at, context, heads, texts }: NewRow): Row {
  const body = texts.join("");
  return { seq, at, ids: IDS, context: JSON.stringify(context), heads: `[${heads.join(",")}]`, body };
}

const noParts = () => {
  throw new Error("The row has no parts");
};

describe("rows", () => {
  test("give back the events they were made of", () => {
    const events = [agentFrame(1, "one"), clientFrame(2), closed(3), foreign(4)];
    const rows = [...rowsOf(events, 10_000)];
    expect(rows).toHaveLength(1);
    const read = [...eventsInRow(stored(rows[0] as NewRow), 0, noParts)];
    expect(read.map(({ event }) => event())).toEqual(events);
    expect(read.map(({ line }) => line(SESSION))).toEqual(
      events.map((event, index) => envelope(event, SESSION, eventId(IDS, index))),
    );
  });

  test("are read from any event on", () => {
    const [row] = rowsOf([agentFrame(5, "a"), agentFrame(6, "b"), agentFrame(7, "c")], 10_000);
    const seqs = (after: number) =>
      [...eventsInRow(stored(row as NewRow), after, noParts)].map(({ seq }) => seq);
    expect(seqs(4)).toEqual([5, 6, 7]);
    expect(seqs(6)).toEqual([7]);
    expect(seqs(7)).toEqual([]);
  });

  test("store a plain frame of the agent with its length only", () => {
    const event = agentFrame(1, "one");
    const [row] = rowsOf([event], 10_000);
    expect(row?.heads).toEqual([String("frame" in event ? event.frame.raw.length : -1)]);
  });

  test("begin anew where the context or the time changes", () => {
    const events = [
      agentFrame(1, "a"),
      agentFrame(2, "b", { context: { ...CONTEXT, turnId: "t" } }),
      agentFrame(3, "c", { at: 2000 }),
    ];
    expect([...rowsOf(events, 10_000)].map(({ seq }) => seq)).toEqual([1, 2, 3]);
  });

  test("begin anew before they grow too long", () => {
    const events = [1, 2, 3, 4].map((seq) => agentFrame(seq, "x".repeat(100)));
    const seqs = [...rowsOf(events, 400)].map(({ seq, heads }) => [seq, heads.length]);
    expect(seqs).toEqual([
      [1, 2],
      [3, 2],
    ]);
  });

  test("take the rest of a long text from the row's parts", () => {
    const event = agentFrame(1, "x".repeat(1000));
    const [row] = rowsOf([event], 400);
    const whole = stored(row as NewRow);
    const cut = { ...whole, body: whole.body.slice(0, 400) };
    const [read] = eventsInRow(cut, 0, () => whole.body.slice(400));
    expect(read?.event()).toEqual(event);
  });
});
