import { z } from "zod";
import { type Caller, SCOPES } from "./caller.ts";
import { isRecord, parseJson } from "./json-value.ts";
import type { Refusal } from "./refusal.ts";
import type { Handover } from "./rpc.ts";

/**
 * Headers by which the Worker tells an object for whom it asks for a socket. A Worker cannot pass a socket through an
 * RPC method, so these requests travel through `fetch`. Both ends use these codecs; no client's header gets here.
 */

/** Whether a client of the resumable wire makes a connection or comes back to one. */
export type Resumption = "new" | "again";

/** A reader of one event stream of a connection: a session's, or the connection's own. */
export type StreamRequest = {
  readonly caller: Caller;
  readonly session?: string | undefined;
  readonly lastEventId?: string | undefined;
};

/** A live reader of a session's log, from the event after `after` on. `socket` is the id of its registration. */
export type LogWatchRequest = { readonly caller: Caller; readonly after: number; readonly socket: string };

/** A live reader of a workspace's view; `id` is the workspace, and `socket` the id of the reader's registration. */
export type WorkspaceWatchRequest = { readonly caller: Caller; readonly id: string; readonly socket: string };

export type InternalHeader<Value> = {
  /** The header as an entry of a request's headers. */
  write(value: Value): Record<string, string>;
  /** Undefined when the header is missing or does not validate. */
  read(headers: { get(name: string): string | null }): Value | undefined;
};

const CALLER: z.ZodType<Caller> = z.object({
  tenant: z.string(),
  subject: z.string(),
  workspaces: z.array(z.string()),
  scopes: z.array(z.enum(SCOPES)),
  expires: z.number(),
  jti: z.string().optional(),
  host: z.string().optional(),
  session: z.string().optional(),
  redacted: z.literal(true).optional(),
});

/** The fields of a handover, which a connection also keeps as part of its client's state. */
export const HANDOVER_FIELDS = {
  connection: z.string(),
  caller: CALLER,
  workspace: z.string(),
  agent: z.string().nullable(),
  observes: z.literal(true).optional(),
  control: z.literal(true).optional(),
};

export const HANDOVER = header<Handover>("X-Acp-Handover", z.object(HANDOVER_FIELDS));

export const RESUMPTION = header<Resumption>("X-Acp-Resumable", z.enum(["new", "again"]));

export const STREAM = header<StreamRequest>(
  "X-Acp-Stream",
  z.object({ caller: CALLER, session: z.string().optional(), lastEventId: z.string().optional() }),
);

export const WATCH_LOG = header<LogWatchRequest>(
  "X-Acp-Watch",
  z.object({ caller: CALLER, after: z.number().int().min(0), socket: z.string() }),
);

export const WATCH_WORKSPACE = header<WorkspaceWatchRequest>(
  "X-Acp-Watch",
  z.object({ caller: CALLER, id: z.string(), socket: z.string() }),
);

export const HOST = header<Caller>("X-Acp-Host", CALLER);

/** In an object's response: why it refuses a socket. */
export const REFUSAL = header<Refusal>(
  "X-Acp-Refusal",
  z.custom<Refusal>((value) => isRecord(value) && [value.reason, value.message].every(isText)),
);

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function header<Value>(name: string, schema: z.ZodType<Value>): InternalHeader<Value> {
  return {
    write: (value) => ({ [name]: asciiJson(value) }),
    read: (headers) => {
      const text = headers.get(name);
      if (text === null) return undefined;
      const read = schema.safeParse(parseJson(text));
      return read.success ? read.data : undefined;
    },
  };
}

/** Header values carry bytes, not characters: other characters than those of ASCII are written as escapes. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
