/** Commands that write unusual bytes to stdout and stderr. */
import type { Command, DemoTurn } from "../demo-turn.ts";

const FLOOD_BATCH = 1000;

export const wireCommands: Command[] = [
  {
    name: "unknown",
    description:
      "An unknown kind of update, a vendor notification, and numbers that JSON parsers tend to change",
    run: unknown,
  },
  {
    name: "raw",
    hint: "JSON",
    description: "A session/update whose update is the given JSON text, byte for byte",
    run: (turn, json) => turn.session.sendLines(turn.session.line(json)),
  },
  {
    name: "split",
    description: "An update in one-byte writes that split characters",
    run: split,
  },
  {
    name: "garbage",
    description: "Lines on stdout that are not JSON, not UTF-8, or empty",
    run: garbage,
  },
  {
    name: "flood",
    hint: "COUNT",
    description: "COUNT lines of noise on stdout",
    run: flood,
  },
  {
    name: "stderr",
    hint: "TEXT",
    description: "A line on stderr",
    run: (turn, text) => {
      process.stderr.write(`${text}\n`);
      turn.say("Wrote a line to stderr.\n");
    },
  },
];

const SPLIT_UPDATE =
  '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"split: é 漢 🙂 done"}}';

/** Forms that do not survive parsing and printing: big integers, 1.0, 1E2, escapes, null instead of omission. */
const ODD_META =
  '{"demo/big":12345678901234567890,"demo/one":1.0,"demo/exp":1E2,"demo/null":null,"demo/text":"\\u00e9\\/"}';
const UNKNOWN_UPDATES = [
  `{"sessionUpdate":"demo_unknown","payload":{"big":12345678901234567890,"one":1.0,"nothing":null},"_meta":${ODD_META}}`,
  `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"message id is null"},"messageId":null,"_meta":${ODD_META}}`,
  `{ "sessionUpdate": "agent_message_chunk", "content": {"type":"text","text":"message id is omitted"}, "_meta": null }`,
];

/** The exact lines that `/unknown` writes. */
export function unknownLines(session: { id: string; line(update: string): string }): string[] {
  const sessionId = JSON.stringify(session.id);
  return [
    ...UNKNOWN_UPDATES.map((update) => session.line(update)),
    `{"jsonrpc":"2.0","method":"_vendor/demo_event","params":{"sessionId":${sessionId},"big":12345678901234567890,"one":1.0,"nothing":null}}\n`,
  ];
}

function unknown({ session, out }: DemoTurn): void {
  for (const line of unknownLines(session)) {
    if (line.includes('"session/update"')) session.sendLines(line);
    else out.write(line);
  }
}

async function split({ session, out }: DemoTurn): Promise<void> {
  const line = session.line(SPLIT_UPDATE);
  session.remember(line);
  await out.writeBytewise(Buffer.from(line));
}

function garbage(turn: DemoTurn): void {
  turn.out.write("this line is not JSON\n");
  turn.out.write('{"jsonrpc":"2.0","method":\n');
  turn.out.write(Buffer.from([0x6e, 0x6f, 0x20, 0xff, 0xfe, 0xc3, 0x28, 0x0a]));
  turn.out.write("\n");
  turn.say("Wrote garbage to stdout.\n");
}

async function flood(turn: DemoTurn, count: string): Promise<void> {
  const total = Number(count || 1000);
  for (let start = 0; start < total; start += FLOOD_BATCH) {
    turn.signal.throwIfAborted();
    const length = Math.min(FLOOD_BATCH, total - start);
    turn.out.write(Array.from({ length }, (_, i) => `noise ${start + i}\n`).join(""));
    await turn.out.ready();
  }
  turn.say(`Wrote ${total} lines of noise to stdout.\n`);
}
