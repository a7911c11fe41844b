import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RedactedStream } from "../../../../src/host/redaction/redacted-stream.ts";
import { Redactor } from "../../../../src/host/redaction/redactor.ts";
import { propertyRuns } from "../../../fixtures/property-runs.ts";

const MARK = "[redacted:NAME]";

/** A secret as it appears in a text, and as it must appear after redaction. */
type Appearance = { text: string; safe: string };
type Encoding = (secret: string, before: string, after: string) => Appearance;

const whole =
  (encode: (secret: string) => string): Encoding =>
  (secret) => ({ text: encode(secret), safe: MARK });

/** Characters of base64 that come from the secret's bytes alone are replaced. */
const base64 =
  (finish: (text: string) => string): Encoding =>
  (secret, before, after) => {
    const [head, body, tail] = [before, secret, after].map((part) => Buffer.from(part)) as [
      Buffer,
      Buffer,
      Buffer,
    ];
    const text = finish(Buffer.concat([head, body, tail]).toString("base64"));
    const start = Math.ceil((head.length * 4) / 3);
    const end = Math.floor(((head.length + body.length) * 4) / 3);
    return { text, safe: text.slice(0, start) + MARK + text.slice(end) };
  };

const inJson = (text: string) => JSON.stringify(text).slice(1, -1);
const unicodeEscapes = (text: string) =>
  Array.from(
    { length: text.length },
    (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, "0")}`,
  ).join("");
const percentAll = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
const urlSafe = (text: string) => text.replaceAll("+", "-").replaceAll("/", "_");

const ENCODINGS: Readonly<Record<string, Encoding>> = {
  raw: whole((secret) => secret),
  "JSON string": whole(inJson),
  "JSON string, slashes escaped": whole((secret) => inJson(secret).replaceAll("/", "\\/")),
  "JSON string, every character escaped": whole(unicodeEscapes),
  "JSON string in upper-case hex": whole((secret) =>
    unicodeEscapes(secret)
      .replace(/[a-f]/g, (c) => c.toUpperCase())
      .replaceAll("\\U", "\\u"),
  ),
  "JSON within JSON": whole((secret) => inJson(inJson(secret))),
  percent: whole(encodeURIComponent),
  "percent in lower case": whole((secret) =>
    encodeURIComponent(secret).replace(/%../g, (c) => c.toLowerCase()),
  ),
  "percent, every byte": whole(percentAll),
  "form with + for spaces": whole((secret) => encodeURIComponent(secret).replaceAll("%20", "+")),
  hex: whole((secret) => Buffer.from(secret).toString("hex")),
  "hex in upper case": whole((secret) => Buffer.from(secret).toString("hex").toUpperCase()),
  base64: base64((text) => text),
  "base64 without padding": base64((text) => text.replace(/=+$/, "")),
  "base64 for URLs": base64(urlSafe),
  "base64 for URLs without padding": base64((text) => urlSafe(text).replace(/=+$/, "")),
};

/** Nothing but the text between secrets has this character. */
const SEPARATOR = "|";
const character = fc.oneof(
  { weight: 8, arbitrary: fc.string({ minLength: 1, maxLength: 1 }) },
  { weight: 2, arbitrary: fc.constantFrom("/", "\\", '"', "%", " ", "+", "é", "日", "\n", "😀") },
);
const secret = fc
  .array(character, { minLength: 12, maxLength: 40 })
  .map((all) => all.join(""))
  .filter((value) => value.trim() === value && !value.includes(SEPARATOR) && new Set(value).size > 5);

type Part = { filler: string; prefix: number; encoding: string; before: string; after: string };
const part: fc.Arbitrary<Part> = fc.record({
  filler: fc.string({ maxLength: 12 }),
  prefix: fc.nat(39),
  encoding: fc.constantFrom(...Object.keys(ENCODINGS)),
  before: fc.string({ maxLength: 5 }),
  after: fc.string({ maxLength: 5 }),
});
const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 });

/** Text with the secret in many encodings, each between text that begins like the secret. */
function compose(value: string, parts: readonly Part[]): Appearance {
  const all = parts.map(({ filler, prefix, encoding, before, after }) => {
    const between = `${filler}${value.slice(0, Math.min(prefix, value.length - 1))}${SEPARATOR}`;
    const { text, safe } = (ENCODINGS[encoding] as Encoding)(value, before, after);
    return { text: `${between}${text}${SEPARATOR}`, safe: `${between}${safe}${SEPARATOR}` };
  });
  return { text: all.map(({ text }) => text).join(""), safe: all.map(({ safe }) => safe).join("") };
}

function chunksOf(text: string, lengths: readonly number[]): string[] {
  const chunks: string[] = [];
  for (let at = 0, i = 0; at < text.length; i++) {
    const length = lengths[i % lengths.length] as number;
    chunks.push(text.slice(at, at + length));
    at += length;
  }
  return chunks;
}

/** Passes chunks through a stream. `flushes` says after which chunks the stream is flushed. */
function pass(value: string, chunks: readonly string[], flushes: (index: number) => boolean = () => false) {
  const redactor = new Redactor();
  redactor.learn("NAME", value);
  const stream = new RedactedStream(redactor);
  const released: { index: number; text: string; isVerbatim: boolean }[] = [];
  for (const [index, chunk] of chunks.entries()) {
    stream.push(chunk, (safe) => {
      released.push({ index, text: safe ?? chunk, isVerbatim: safe === undefined });
    });
    if (flushes(index)) stream.flush();
  }
  stream.flush();
  return { released, text: released.map(({ text }) => text).join("") };
}

describe("a stream of text in chunks", () => {
  test.for(Object.keys(ENCODINGS))("lets no secret out, wherever it is cut: %s", (encoding) => {
    const one = part.map((fields) => ({ ...fields, encoding }));
    fc.assert(
      fc.property(secret, fc.array(one, { minLength: 1, maxLength: 3 }), sizes, (value, parts, lengths) => {
        const { text, safe } = compose(value, parts);
        expect(pass(value, chunksOf(text, lengths)).text).toBe(safe);
      }),
      propertyRuns(200),
    );
  });

  test("lets no secret out among secrets in other encodings", () => {
    fc.assert(
      fc.property(secret, fc.array(part, { minLength: 1, maxLength: 6 }), sizes, (value, parts, lengths) => {
        const { text, safe } = compose(value, parts);
        expect(pass(value, chunksOf(text, lengths)).text).toBe(safe);
      }),
      propertyRuns(500),
    );
  });

  test("releases every chunk once, in order, and without secrets as it came", () => {
    fc.assert(
      fc.property(
        secret,
        fc.array(part, { maxLength: 4 }),
        sizes,
        fc.array(fc.boolean()),
        (value, parts, lengths, cuts) => {
          const { text } = compose(value, parts);
          const chunks = chunksOf(text, lengths);
          const { released } = pass(value, chunks, (index) => cuts[index % cuts.length] ?? false);
          expect(released.map(({ index }) => index)).toEqual(chunks.map((_, index) => index));
          const innocent = text.replaceAll(value, "");
          const plain = pass("never-in-any-text", chunksOf(innocent, lengths));
          expect(plain.released.every(({ isVerbatim }) => isVerbatim)).toBe(true);
          expect(plain.text).toBe(innocent);
        },
      ),
      propertyRuns(500),
    );
  });

  test("does not complete a secret whose beginning had to be released", () => {
    fc.assert(
      fc.property(secret, sizes, fc.nat(39), (value, lengths, at) => {
        const chunks = chunksOf(`a ${value} b`, lengths);
        const { text } = pass(value, chunks, (index) => index === at % chunks.length);
        expect(text).not.toContain(value);
        expect(text).toContain(MARK);
        expect(text.startsWith("a ")).toBe(true);
        expect(text.endsWith(" b")).toBe(true);
      }),
      propertyRuns(500),
    );
  });

  test("recognises base64 that a tool has broken into lines", () => {
    const value = "correct horse battery staple 12345678 correct horse battery staple";
    const lines = Buffer.from(`HOME=/root\0KEY=${value}\0SHELL=/bin/sh`)
      .toString("base64")
      .replace(/.{76}/g, "$&\n");
    const { text } = pass(value, chunksOf(`environ:\n${lines}\ndone`, [4]));
    expect(Buffer.from(text.replace(/\s|environ:|done/g, ""), "base64").toString()).not.toContain("battery");
    expect(text).toContain(MARK);
    expect(text.startsWith("environ:\n")).toBe(true);
    expect(text.endsWith("\ndone")).toBe(true);
  });

  test("puts the mark into the first of the chunks that share a secret, and empties the others", () => {
    const { released } = pass("abcdefghij", ["see ab", "cdef", "ghij", " end"]);
    expect(released.map(({ text }) => text)).toEqual([`see ${MARK}`, "", "", " end"]);
  });

  test("waits for the longer of two secrets with the same beginning", () => {
    const redactor = new Redactor();
    redactor.learn("SHORT", "abcdefgh");
    redactor.learn("LONG", "abcdefghijkl");
    const stream = new RedactedStream(redactor);
    const out: string[] = [];
    for (const chunk of ["abcd", "efgh", "ijkl", " abcdefgh", "ij."])
      stream.push(chunk, (safe) => out.push(safe ?? chunk));
    expect(out.join("")).toBe("[redacted:LONG] [redacted:SHORT]ij.");
  });
});

describe("a text that is sent again and again while it grows", () => {
  const WHOLE = Object.keys(ENCODINGS).filter((name) => !name.startsWith("base64"));

  /** The text as a reader sees it in a snapshot that ends here. */
  function snapshot(value: string, text: string): string {
    const redactor = new Redactor();
    redactor.learn("NAME", value);
    return (JSON.parse(redactor.redactSnapshot(JSON.stringify({ a: [text] }))) as { a: [string] }).a[0];
  }

  test.for(WHOLE)("shows no more than the first characters of a secret: %s", (encoding) => {
    fc.assert(
      fc.property(secret, part, fc.nat(), (value, { filler, before, after }, at) => {
        const { text } = (ENCODINGS[encoding] as Encoding)(value, before, after);
        const length = 1 + (at % text.length);
        const start = `${filler}${SEPARATOR}`;
        const shown = snapshot(value, start + text.slice(0, length));
        if (length === text.length) expect(shown).toBe(start + MARK);
        else if (length < 12) expect(shown).toBe(start + text.slice(0, length));
        else expect(shown).toMatch(/\[redacted:(NAME|beginning of a secret)\]$/);
        if (length >= 12) expect(shown.startsWith(`${start}[redacted:`)).toBe(true);
      }),
      propertyRuns(200),
    );
  });

  test("shows no more than the first characters of a secret in base64", () => {
    fc.assert(
      fc.property(secret, part, fc.nat(), (value, { before, after }, at) => {
        const { text, safe } = (ENCODINGS.base64 as Encoding)(value, before, after);
        const start = safe.indexOf(MARK);
        const length = 1 + (at % text.length);
        const shown = snapshot(value, `${SEPARATOR}${text.slice(0, length)}`);
        if (length - start >= 12) expect(shown).toContain(`${SEPARATOR}${text.slice(0, start)}[redacted:`);
      }),
      propertyRuns(200),
    );
  });

  test("stays as it is without a secret", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const redactor = new Redactor();
        redactor.learn("NAME", "never-in-any-text");
        expect(redactor.redactSnapshot(text)).toBe(text);
      }),
      propertyRuns(200),
    );
  });
});
