import type { Context } from "hono";
import type { z } from "zod";
import { schemaFault } from "../protocol/schema-fault.ts";
import { RefusalException } from "./refusal-response.ts";

/** Validates the input of a request before any object is asked. */
export function parse<T>(schema: z.ZodType<T>, input: unknown): T {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  throw new RefusalException({ reason: "invalid", message: schemaFault(result.error) });
}

export function parseQuery<T>(c: Context, schema: z.ZodType<T>): T {
  return parse(schema, c.req.query());
}

/** The body of a request that needs none: an absent body is an empty object. */
export async function parseOptionalBody<T>(c: Context, schema: z.ZodType<T>): Promise<T> {
  return (await c.req.text()) === "" ? parse(schema, {}) : parseBody(c, schema);
}

/** A body that is not JSON fails the schema as null does. */
export async function parseBody<T>(c: Context, schema: z.ZodType<T>): Promise<T> {
  return parse(schema, await c.req.json().catch(() => null));
}
