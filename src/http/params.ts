import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { sessionObject } from "../durable/object-names.ts";
import { isUuid } from "../protocol/ids.ts";
import * as refusal from "../protocol/refusal.ts";
import type { AcpSession } from "../session/acp-session.ts";
import type { AppEnv } from "./app-env.ts";
import { RefusalException } from "./refusal-response.ts";

/** What requests name, checked before anything is asked of an object. */

export function parse<T>(schema: z.ZodType<T>, query: unknown): T {
  const result = schema.safeParse(query);
  if (result.success) return result.data;
  throw new HTTPException(400, { message: z.prettifyError(result.error) });
}

export function sessionOf(c: Context<AppEnv>, id: string): DurableObjectStub<AcpSession> {
  if (!isUuid(id)) throw unknownSession(id);
  return sessionObject(c.env, c.get("caller").tenant, id);
}

export function unknownSession(id: string): RefusalException {
  return new RefusalException(refusal.unknownSession(id));
}
