import { isRecord, parseJson } from "../../../src/protocol/json-value.ts";
import type { Random } from "../../fixtures/random.ts";

/** A field of a message, and the message with other JSON texts in its place. */
export type Field = { readonly path: string; with(text: string): string };

/** Texts of values that are too large for a row, for an attachment or an id, and for a stack. */
const LARGE: readonly (() => string)[] = [
  () => `"${"x".repeat(3_000_000)}"`,
  () => `"${"é".repeat(20_000)}"`,
  () => "[".repeat(200_000) + "]".repeat(200_000),
];

/** The fields of the messages that are JSON, each of them once, whichever message has it. */
export function fieldsOf(messages: readonly string[]): Field[] {
  const fields = new Map<string, Field>();
  for (const message of messages) {
    const value = parseJson(message);
    if (value === undefined) continue;
    for (const field of fieldsIn(value, "", (text) => text))
      if (!fields.has(field.path)) fields.set(field.path, field);
  }
  return [...fields.values()];
}

/** Some fields with one large value each, or with `count` infinite all fields with all of these values. */
export function* largeMessages(fields: readonly Field[], count: number, random: Random): Generator<string> {
  if (count === Number.POSITIVE_INFINITY)
    for (const field of fields) for (const large of LARGE) yield field.with(large());
  else for (let i = 0; i < count; i += 1) yield random.pick(fields).with(random.pick(LARGE)());
}

/** `whole` puts the text of this value into the text of the message. */
function* fieldsIn(value: unknown, path: string, whole: (text: string) => string): Generator<Field> {
  if (typeof value === "string" && value.startsWith('{"jsonrpc"'))
    // A message in a message.
    yield* fieldsIn(JSON.parse(value), `${path}>`, (text) => whole(JSON.stringify(text)));
  if (Array.isArray(value)) {
    const texts = value.map((item) => JSON.stringify(item));
    const kind = KINDS.has(String(value[0])) ? value[0] : "";
    for (const [at, item] of value.entries())
      yield* fieldsIn(item, `${path}[${kind}]`, (text) => whole(`[${texts.with(at, text).join(",")}]`));
  } else if (isRecord(value)) {
    const kind = NAMING.map((name) => value[name]).filter((word) => typeof word === "string");
    const members = Object.entries(value).map(([name, item]) => member(name, JSON.stringify(item)));
    const object = (texts: readonly string[]) => whole(`{${texts.join(",")}}`);
    for (const [at, [name, item]] of Object.entries(value).entries())
      yield* fieldsIn(item, `${path}{${kind}}.${name}`, (text) =>
        object(members.with(at, member(name, text))),
      );
    // A further member, whose name may be large.
    const further = (text: string) => (text.startsWith('"') ? `${text}:1` : member("x", text));
    yield { path: `${path}{${kind}}.*`, with: (text) => object([...members, further(text)]) };
  } else yield { path, with: whole };
}

function member(name: string, text: string): string {
  return `${JSON.stringify(name)}:${text}`;
}

/** The events of a host, which are arrays, by their first items. */
const KINDS: ReadonlySet<string> = new Set(["started", "sent", "answer", "noise", "dropped", "exit"]);

/** Fields whose values tell apart objects in the same place. */
const NAMING = ["method", "t", "sessionUpdate", "type", "outcome", "action", "mode"];
