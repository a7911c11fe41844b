import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { isUuid } from "../protocol/ids.ts";
import type { AcpSession } from "../session/session.ts";

/** What requests name, checked before anything is asked of an object. */

export function parse<T>(schema: z.ZodType<T>, query: unknown): T {
  const result = schema.safeParse(query);
  if (result.success) return result.data;
  throw new HTTPException(400, { message: z.prettifyError(result.error) });
}

export function sessionOf(env: Env, id: string): DurableObjectStub<AcpSession> {
  if (!isUuid(id)) throw unknownSession();
  return env.ACP_SESSION_DO.getByName(id);
}

export function unknownSession(): HTTPException {
  return new HTTPException(404, { message: "Unknown session" });
}
