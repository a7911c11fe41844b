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
 * Settings of MCP servers carry credentials: the values of `env` and `headers`. The agent needs the values, but the log
 * must not have them, because not every reader of a session is entitled to them. So references replace the values
 * before a frame is logged, and the values replace the references in the line to the agent. Only the values of `env`
 * and `headers` are ever restored: a reference copied to another place stays plain text.
 */

/** A message with references, and the JSON text of each replaced value by its reference. */
export type Concealed = { raw: string; values: Record<string, string> };

/** Whether a message can have values to conceal. */
export function hasMcpServers({ params }: Readonly<Record<string, unknown>>): boolean {
  return typeof params === "object" && params !== null && "mcpServers" in params;
}

/** Replaces the values of a message by references. */
export function conceal(raw: string, newReference: () => string): Concealed {
  const values: Record<string, string> = {};
  const text = replace(raw, valuesIn(raw), (value) => {
    const reference = newReference();
    values[reference] = value;
    return JSON.stringify(`[secret:${reference}]`);
  });
  return { raw: text, values };
}

/** Restores the values of a message. An unknown reference becomes an empty string. */
export function reveal(raw: string, find: (reference: string) => string | undefined): string {
  return replace(raw, valuesIn(raw), (value) => {
    const reference = REFERENCE.exec(value)?.[1];
    return reference === undefined ? value : (find(reference) ?? '""');
  });
}

/** The length of the longest value of a message. */
export function longestValue(raw: string): number {
  return Math.max(0, ...valuesIn(raw).map(({ start, end }) => end - start));
}

/** Counts the values of a message that are references. */
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

/** The spans of all values, in order. Duplicate keys count each. */
function valuesIn(raw: string): Span[] {
  const found: Span[] = [];
  const take = (start: number) => {
    const end = skipValue(raw, start);
    found.push({ start, end });
    return end;
  };
  const setting = (start: number) =>
    within(raw, start, (key, at) => (key === "value" ? take(at) : undefined));
  // Canonical settings are a list of names and values; some clients send an object.
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

/** Visits the members of an object. A visit without a result skips the value; a value that is no object is skipped. */
function within(
  raw: string,
  start: number,
  visit: (key: string, valueStart: number) => number | undefined,
): number {
  if (!isObjectAt(raw, start)) return skipValue(raw, start);
  return eachMember(raw, start, (key, at) => visit(key, at) ?? skipValue(raw, at));
}
