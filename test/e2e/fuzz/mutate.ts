import type { Random } from "../../fixtures/random.ts";

/** Random and damaged messages. A seed always gives the same ones. */

/** JSON values that often cause errors in programs. */
const ODD = [
  ...[
    "null",
    "true",
    "0",
    "-1",
    "-0",
    "1.5",
    "1e999",
    "-1e999",
    "9007199254740993",
    "123456789012345678901234567890",
  ],
  ...[
    "2147483648",
    "4294967296",
    "1e-400",
    '""',
    '" "',
    '"\\u0000"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"__proto__"',
  ],
  ...[
    '"constructor"',
    '"toString"',
    '"💥👩‍👩‍👧‍👦"',
    '"\\u202e\\u2028\\u2029"',
    '"../../etc/passwd"',
    '"%00%ff"',
    '"\\r\\n\\r\\n"',
  ],
  ...[
    "[]",
    "{}",
    "[[]]",
    "[null]",
    '{"__proto__":{"polluted":true}}',
    '{"constructor":{"prototype":{"polluted":1}}}',
  ],
  ...[
    '{"toString":1,"valueOf":2}',
    '{"length":1e9}',
    '{"":""}',
    '"{\\"jsonrpc\\":\\"2.0\\"}"',
    `"${"x".repeat(2000)}"`,
  ],
];

/** Values that no column, head, attachment or stack has room for. They are large, so they are rare. */
const LARGE: readonly (() => string)[] = [
  () => `"${"x".repeat(3_000_000)}"`,
  () => `"${"é".repeat(1_500_000)}"`,
  () => "[".repeat(200_000) + "]".repeat(200_000),
  () => `${'{"a":'.repeat(200_000)}1${"}".repeat(200_000)}`,
  () => `[${"[],".repeat(300_000)}0]`,
  () => `[${"0,".repeat(600_000)}0]`,
  () => `{"${"k".repeat(3_000_000)}":1}`,
  () => `{${Array.from({ length: 50_000 }, (_, i) => `"k${i}":${i}`).join(",")}}`,
  () => `"${"` ".repeat(200_000)}"`,
];

/** An odd value, sometimes nested in many copies of itself. */
function odd(random: Random): string {
  if (random.chance(LARGE_SHARE)) return random.pick(LARGE)();
  const depth = random.chance(0.003) ? random.pick([100, 1000, 20_000]) : 0;
  if (depth > 0 && random.chance(0.5)) return "[".repeat(depth) + "]".repeat(depth);
  if (depth > 0) return '{"a":'.repeat(depth) + random.pick(ODD) + "}".repeat(depth);
  return random.pick(ODD);
}

/** The share of large values among the odd ones. */
const LARGE_SHARE = 0.002;

const VALUE = /"(?:[^"\\]|\\.)*"(?!\s*:)|-?\d+(?:\.\d+)?|true|false|null/g;
const MEMBER = /,\s*"(?:[^"\\]|\\.)*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|-?\d+|true|false|null)/g;
const KEY = /"(?:[^"\\]|\\.)*"(?=\s*:)/g;

/** Replaces one of the matches. */
function replaceOne(random: Random, text: string, what: RegExp, put: (found: string) => string): string {
  const found = [...text.matchAll(what)];
  if (found.length === 0) return text;
  const { index, 0: match } = random.pick(found);
  return text.slice(0, index) + put(match) + text.slice(index + match.length);
}

type Mutation = (text: string, random: Random, others: readonly string[]) => string;

/** Most mutations keep the text JSON, so that it passes the parser. */
const MUTATIONS: readonly Mutation[] = [
  (text, random) => replaceOne(random, text, VALUE, () => odd(random)),
  (text, random) => replaceOne(random, text, VALUE, () => odd(random)),
  (text, random) => replaceOne(random, text, MEMBER, () => ""),
  (text, random) => replaceOne(random, text, MEMBER, (found) => found + found),
  (text, random) =>
    replaceOne(random, text, KEY, () =>
      random.pick(['"__proto__"', '"constructor"', '"id"', '""', '"method"']),
    ),
  (text, random, others) => replaceOne(random, text, VALUE, () => random.pick(others)),
  (text, random) => text.replace("{", `{${random.pick(KEYS)}:${odd(random)},`),
  (text, random) => text.slice(0, random.below(text.length + 1)),
  (text, random) => text.slice(random.below(text.length + 1)),
  (text, random) => flip(text, random),
  (text, random) => text + random.pick([text, "\n", "\n{}", "\u0000", ",", "]", "\r\n", " ", "\ufeff"]),
  (text, random) => `[${text}${random.chance(0.5) ? `,${text}` : ""}]`,
  (text, random) =>
    splice(text, random, random.pick(["\u0000", "\ud800", "💥", '"', "\\", "{", "}", "\n", "9".repeat(400)])),
  (text, random, others) => splice(text, random, random.pick(others)),
];

const KEYS = [
  '"__proto__"',
  '"id"',
  '"method"',
  '"params"',
  '"jsonrpc"',
  '"sessionId"',
  '"_meta"',
  '"t"',
  '"result"',
  '"error"',
];

function flip(text: string, random: Random): string {
  if (text === "") return text;
  const at = random.below(text.length);
  return (
    text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ (1 << random.below(8))) + text.slice(at + 1)
  );
}

function splice(text: string, random: Random, piece: string): string {
  const at = random.below(text.length + 1);
  return text.slice(0, at) + piece + text.slice(at + random.below(8));
}

/** A longer text is not mutated further. */
const MAX_CHARS = 20_000;

/** One of the messages, unchanged or with a few mutations. */
export function mutant(random: Random, corpus: readonly string[]): string {
  let text = random.pick(corpus);
  const times = random.pick([0, 1, 1, 1, 2, 3, 6]);
  for (let i = 0; i < times && text.length < MAX_CHARS; i += 1)
    text = random.pick(MUTATIONS)(text, random, corpus);
  return text;
}
