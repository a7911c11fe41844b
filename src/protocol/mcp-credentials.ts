import {
  eachElement,
  eachMember,
  isArrayAt,
  isObjectAt,
  type Span,
  skipSpace,
  skipValue,
} from "./json-text.ts";

/**
 * Settings of MCP servers carry credentials: the values of `env` and `headers`. The agent must have them as
 * they are, the log must not: readers of a session are not all entitled to them. So they are replaced by
 * references before a frame is logged, kept apart, and put back when a line is written to the agent. Only these
 * places are ever put back: a reference that somebody copies elsewhere is a text like any other.
 */

/** Values by reference, each as the JSON text it had. */
export type Concealed = { raw: string; values: Record<string, string> };

/** Whether there can be anything to conceal in a message. */
export function hasMcpServers({ params }: Readonly<Record<string, unknown>>): boolean {
  return typeof params === "object" && params !== null && "mcpServers" in params;
}

/** The message with references in place of values. */
export function conceal(raw: string, newReference: () => string): Concealed {
  const values: Record<string, string> = {};
  const text = replace(raw, valuesIn(raw), (value) => {
    const reference = newReference();
    values[reference] = value;
    return JSON.stringify(`[secret:${reference}]`);
  });
  return { raw: text, values };
}

/** The message as it was. Where a value is not known any more there is an empty text. */
export function reveal(raw: string, find: (reference: string) => string | undefined): string {
  return replace(raw, valuesIn(raw), (value) => {
    const reference = REFERENCE.exec(value)?.[1];
    return reference === undefined ? value : (find(reference) ?? '""');
  });
}

/** The longest value, in characters. */
export function longestValue(raw: string): number {
  return Math.max(0, ...valuesIn(raw).map(({ start, end }) => end - start));
}

/** How many values of a message are references. */
export function countConcealed(raw: string): number {
  return valuesIn(raw).filter(({ start, end }) => REFERENCE.test(raw.slice(start, end))).length;
}

const REFERENCE = /^"\[secret:([\w-]+)\]"$/;

function replace(raw: string, spans: readonly Span[], to: (text: string) => string): string {
  let out = "";
  let at = 0;
  for (const { start, end } of spans) {
    out += raw.slice(at, start) + to(raw.slice(start, end));
    at = end;
  }
  return out + raw.slice(at);
}

/** Where the values stand, in order. A key that is there twice is looked at twice. */
function valuesIn(raw: string): Span[] {
  const found: Span[] = [];
  const take = (start: number) => {
    const end = skipValue(raw, start);
    found.push({ start, end });
    return end;
  };
  const setting = (start: number) =>
    within(raw, start, (key, at) => (key === "value" ? take(at) : undefined));
  // A list of names and values, or, as some clients have it, an object.
  const settings = (start: number) =>
    isArrayAt(raw, start) ? eachElement(raw, start, setting) : within(raw, start, (_, at) => take(at));
  const server = (start: number) =>
    within(raw, start, (key, at) => (key === "env" || key === "headers" ? settings(at) : undefined));
  const servers = (start: number) =>
    isArrayAt(raw, start) ? eachElement(raw, start, server) : within(raw, start, (_, at) => server(at));
  const params = (start: number) =>
    within(raw, start, (key, at) => (key === "mcpServers" ? servers(at) : undefined));
  within(raw, skipSpace(raw, 0), (key, at) => (key === "params" ? params(at) : undefined));
  return found;
}

/** Visits the members of an object; a visit that returns nothing skips the value, as does anything but an object. */
function within(
  raw: string,
  start: number,
  visit: (key: string, valueStart: number) => number | undefined,
): number {
  if (!isObjectAt(raw, start)) return skipValue(raw, start);
  return eachMember(raw, start, (key, at) => visit(key, at) ?? skipValue(raw, at));
}
