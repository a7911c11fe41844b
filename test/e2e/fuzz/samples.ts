/** Samples of every message of ACP, made from the protocol's own schema: together they have every field. */
import acp from "@agentclientprotocol/sdk/schema/v1/schema.json" with { type: "json" };
import { isRecord } from "../../../src/protocol/json-value.ts";

type Schema = {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema | boolean;
  allOf?: Schema[];
  oneOf?: Schema[];
  anyOf?: Schema[];
  "x-method"?: string;
  "x-side"?: string;
};

/** Values for the fields of these names, in place of any string. */
export type Words = Readonly<Record<string, unknown>>;

const DEFINITIONS = acp.$defs as unknown as Record<string, Schema>;

type Kind = "Request" | "Notification" | "Response";

/** The samples of the messages of one kind that this side receives or, for responses, sends; with their methods. */
export function* samples(
  side: "agent" | "client",
  kind: Kind,
  words: Words,
): Generator<{ method: string; value: unknown }> {
  for (const [name, schema] of Object.entries(DEFINITIONS)) {
    const method = schema["x-method"];
    if (method === undefined || schema["x-side"] !== side || !name.endsWith(kind)) continue;
    for (const value of valuesOf(schema, words)) yield { method, value };
  }
}

/**
 * Values of the schema that together have every field and every alternative: the first has the first alternative of
 * each field, and each of the others differs from it in one place.
 */
function valuesOf(schema: Schema, words: Words, depth = 0): unknown[] {
  if (depth > MAX_DEPTH) return [null];
  const within = (inner: Schema) => valuesOf(inner, words, depth + 1);
  if (schema.$ref) return within(DEFINITIONS[schema.$ref.split("/").at(-1) as string] as Schema);
  if ("const" in schema) return [schema.const];
  if (schema.enum) return [schema.enum[0]];
  const { properties = {}, additionalProperties: more } = schema;
  const own = Object.entries(properties).map(
    ([name, inner]) => [name, name in words ? [words[name]] : within(inner)] as const,
  );
  if (isRecord(more)) own.push(["name", within(more)]);
  else if (more === true) own.push(["name", ["x"]]);
  const bases = [schema.allOf?.map(within) ?? [], own.length > 0 ? [variants(own)] : []].flat();
  const alternatives = [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])].flatMap(within);
  if (alternatives.length > 0) bases.push(alternatives);
  if (bases.length > 0) return bases.reduce(merged);
  const type = [schema.type ?? "object"].flat()[0];
  if (type === "array") return schema.items ? within(schema.items).map((item) => [item]) : [[]];
  if (type === "string") return ["x"];
  if (type === "boolean") return [true];
  return [type === "object" ? { name: "x" } : type === "null" ? null : 1];
}

/** Schemas refer to themselves. */
const MAX_DEPTH = 14;

function variants(fields: readonly (readonly [name: string, values: readonly unknown[]])[]): object[] {
  const first = Object.fromEntries(fields.map(([name, [value]]) => [name, value]));
  return [
    first,
    ...fields.flatMap(([name, values]) => values.slice(1).map((value) => ({ ...first, [name]: value }))),
  ];
}

function merged(some: unknown[], others: unknown[]): unknown[] {
  const both = (one: unknown, other: unknown) =>
    isRecord(one) && isRecord(other) ? { ...one, ...other } : other;
  return [
    ...others.map((other) => both(some[0], other)),
    ...some.slice(1).map((one) => both(one, others[0])),
  ];
}
