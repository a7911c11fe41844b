import { isReservedMethod } from "./extensions.ts";
import {
  eachElement,
  eachMember,
  isArrayAt,
  isObjectAt,
  isStringAt,
  type Span,
  skipSpace,
  skipValue,
} from "./json-text.ts";

/**
 * Clients give agents credentials: the values of `env` and `headers` of MCP servers, everything but the method of a login
 * and the name and type of a provider, the content of answers to forms, settings of the agent in the `_meta` of an opening,
 * and options and parameters of vendors' methods that are called a key or look like one. The agent needs these values, but the log must not have them, because not every reader of a session is entitled to
 * them. So references replace the values before a frame is logged, and the values replace the references in the line to
 * the agent. Only the values at these places are ever restored: a reference copied to another place stays plain text.
 */

/** A message with references, and the JSON text of each replaced value by its reference. */
export type Concealed = { raw: string; values: Record<string, string> };

/**
 * Whether a message can have values to conceal, or references to them. Of a response, `asked` is the method of its
 * request, if that is known. The parsed message decides, so that a long answer to another request is not searched.
 */
export function mayHaveCredentials(message: Readonly<Record<string, unknown>>, asked?: string): boolean {
  if (message.method === undefined) return isFormAnswer(message.result, asked);
  const method = String(message.method);
  return hasMcpServers(message) || METHODS_WITH_CREDENTIALS.has(method) || isVendorMethod(method);
}

/** Methods that ACP leaves to agents and clients: nobody knows what their parameters mean. */
function isVendorMethod(method: string): boolean {
  return method.startsWith("_") && !isReservedMethod(method);
}

/** Whether the result answers a form. An answer that comes too late has no request any more, but looks like one. */
function isFormAnswer(result: unknown, asked: string | undefined): boolean {
  if (typeof result !== "object" || result === null) return false;
  return asked === FORM || typeof (result as Readonly<Record<string, unknown>>).action === "string";
}

export function hasMcpServers({ params }: Readonly<Record<string, unknown>>): boolean {
  return typeof params === "object" && params !== null && "mcpServers" in params;
}

/** Replaces the values of a message by references. */
export function conceal(raw: string, newReference: () => string, asked?: string): Concealed {
  const values: Record<string, string> = {};
  const text = replace(raw, valuesIn(raw, asked), (value) => {
    const reference = newReference();
    values[reference] = value;
    return referenceTo(reference, value);
  });
  return { raw: text, values };
}

/** Restores the values of a message. An unknown reference becomes an empty value of the same type. */
export function reveal(raw: string, find: (reference: string) => string | undefined, asked?: string): string {
  return replace(raw, valuesIn(raw, asked), (value) => {
    const [, reference, type] = REFERENCE.exec(value) ?? [];
    return reference === undefined ? value : (find(reference) ?? EMPTY[type ?? "string"] ?? "null");
  });
}

/** The references of a message. */
export function referencesIn(raw: string): string[] {
  return valuesIn(raw).flatMap(({ start, end }) => REFERENCE.exec(raw.slice(start, end))?.[1] ?? []);
}

/** The length of the longest value of a message. */
export function longestValue(raw: string): number {
  return valuesIn(raw).reduce((longest, { start, end }) => Math.max(longest, end - start), 0);
}

/** The values of a message: how many there are, and how long they are together. */
export function measureValues(raw: string, asked?: string): { count: number; chars: number } {
  const values = valuesIn(raw, asked);
  return { count: values.length, chars: values.reduce((sum, { start, end }) => sum + end - start, 0) };
}

const REFERENCE = /^"\[secret:([\w-]+)(?::(\w+))?\]"$/;
const EMPTY: Readonly<Record<string, string>> = { string: '""', object: "{}", array: "[]" };

/** The JSON text of a reference, with the type of the value unless it is a string. */
function referenceTo(reference: string, value: string): string {
  const type = { '"': "", "{": ":object", "[": ":array" }[value[0] ?? ""] ?? ":scalar";
  return JSON.stringify(`[secret:${reference}${type}]`);
}

const OPENINGS: ReadonlySet<string> = new Set([
  "session/new",
  "session/load",
  "session/resume",
  "session/fork",
]);
const METHODS_WITH_CREDENTIALS: ReadonlySet<string> = new Set([
  ...OPENINGS,
  "authenticate",
  "logout",
  "providers/set",
  "session/set_config_option",
]);

/** The agent asks people for values with it, passwords included. */
const FORM = "elicitation/create";

/** Words in the names of options that hold a credential. Other words may contain them: `max_tokens`, `keybindings`. */
const SECRET_WORD =
  /^((api|access|secret|private|auth)?(key|token)|(client)?secrets?|pass(word|wd|phrase|code)s?|pwd|credentials?|auth|authorization|bearer)\d*$/;
/** The beginnings of keys that well-known services issue. */
const SECRET_VALUE = /^"(sk-|sk_|gh[oprsu]_|github_pat_|glpat-|xox|AKIA|AIza|eyJ)/;

function replace(raw: string, spans: readonly Span[], to: (text: string) => string): string {
  let out = "";
  let at = 0;
  for (const { start, end } of spans) {
    out += raw.slice(at, start) + to(raw.slice(start, end));
    at = end;
  }
  return out + raw.slice(at);
}

/** Whether the name of an option, in snake, kebab or camel case, has the word of a credential. */
function isSecretOption(name: string): boolean {
  const spaced = name.replace(/([a-z\d])([A-Z])/g, "$1 $2").replace(/([A-Z])([A-Z][a-z])/g, "$1 $2");
  return spaced.split(/[^a-zA-Z\d]+/).some((word) => SECRET_WORD.test(word.toLowerCase()));
}

/** The spans of all values, in order. Duplicate keys count each. */
function valuesIn(raw: string, asked?: string): Span[] {
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
  // The gateway reads its own keys.
  const meta = (start: number) =>
    isObjectAt(raw, start)
      ? within(raw, start, (key, at) => (key.startsWith(OWN_KEYS) ? undefined : take(at)))
      : take(start);
  const method = textAt(raw, ["method"]);
  const isOption =
    method === "session/set_config_option" && isSecretOption(textAt(raw, ["params", "configId"]) ?? "");
  const isSecretAt = (at: number) => SECRET_VALUE.test(raw.slice(at, at + 16)) || isReferenceAt(raw, at);
  // Whatever is called a key or looks like one, however deep inside.
  const member = (key: string, at: number): number => (isSecretOption(key) ? take(at) : nested(at));
  const nested = (at: number): number => {
    if (isSecretAt(at)) return take(at);
    return isArrayAt(raw, at) ? eachElement(raw, at, nested) : within(raw, at, member);
  };
  const param = (key: string, at: number) => {
    if (key === "mcpServers") return servers(at);
    if (isVendorMethod(method ?? "")) return member(key, at);
    if (key === "_meta" && METHODS_WITH_CREDENTIALS.has(method ?? "")) return meta(at);
    if (method === "authenticate" && key !== "methodId") return take(at);
    // An address may have a key in it, and whatever else an agent takes may be one.
    if (method === "providers/set" && key !== "providerId" && key !== "apiType")
      return key === "headers" ? settings(at) : take(at);
    if (method === "session/set_config_option" && key === "value")
      return isOption || isSecretAt(at) ? take(at) : undefined;
    return undefined;
  };
  const isForm = method === undefined && (asked === FORM || textAt(raw, ["result", "action"]) !== undefined);
  const result = (key: string, at: number) => {
    if (key === "_meta") return meta(at);
    if (key !== "content") return undefined;
    return isObjectAt(raw, at) ? within(raw, at, (_, value) => take(value)) : take(at);
  };
  within(raw, skipSpace(raw, 0), (key, at) => {
    if (key === "params") return within(raw, at, param);
    return key === "result" && isForm ? within(raw, at, result) : undefined;
  });
  return found;
}

const OWN_KEYS = "acp-edge/";

function isReferenceAt(raw: string, at: number): boolean {
  return raw.startsWith('"[secret:', at);
}

/** The text at a path of member names; of members with the same name, the last one counts. */
function textAt(raw: string, path: readonly string[]): string | undefined {
  let found: number | undefined = skipSpace(raw, 0);
  for (const name of path) {
    const start: number = found ?? 0;
    found = undefined;
    within(raw, start, (key, at) => {
      if (key === name) found = at;
      return undefined;
    });
    if (found === undefined) return undefined;
  }
  if (found === undefined || !isStringAt(raw, found)) return undefined;
  return JSON.parse(raw.slice(found, skipValue(raw, found))) as string;
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
