import { Tables } from "../durable/schema.ts";
import { readLimits } from "../protocol/limits.ts";
import { Access } from "./access.ts";
import { Removal } from "./removal.ts";
import { SESSION_SCHEMA } from "./schema.ts";
import type { SessionContext } from "./session-parts.ts";
import { SessionSockets } from "./session-sockets.ts";
import { isStaged } from "./transfer/object/session-import.ts";

/** The parts of a session's object that do not depend on a session. */
export function newContext(ctx: DurableObjectState, env: Env): SessionContext {
  const tables = new Tables(ctx.storage, SESSION_SCHEMA);
  const removal = new Removal(ctx, env);
  // The tables of a deleted session belong to no session, and go with the order to remove it.
  if (removal.isUnderWay) tables.forget();
  // A crash ended an import and left its rows.
  if (isStaged(ctx.storage.sql, tables)) {
    tables.forget();
    void ctx.blockConcurrencyWhile(() => ctx.storage.deleteAll());
  }
  return {
    ...{ ctx, env, tables },
    limits: readLimits(env.LIMITS),
    access: new Access(ctx.storage.kv),
    sockets: new SessionSockets(ctx, env),
    removal,
  };
}
