import { Deadlines } from "../durable/deadlines.ts";
import { workspaceObject } from "../durable/object-names.ts";
import type { Tables } from "../durable/schema.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Access } from "./access.ts";
import { ioClientGone } from "./core/decide/client-files.ts";
import type { SessionState } from "./core/state/state.ts";
import { ConcealedValues } from "./log/concealed-values.ts";
import { HistoryArchive } from "./log/history-archive.ts";
import { Journal, type Recorder } from "./log/journal.ts";
import { IndexWriter } from "./outbox/index-writer.ts";
import { WebhookOutbox } from "./outbox/webhook-outbox.ts";
import { Clients } from "./readers/clients.ts";
import { HostLink } from "./readers/host-link.ts";
import { LogWatchers } from "./readers/log-watchers.ts";
import type { SessionSockets } from "./session-sockets.ts";

/** The parts of the object that outlive one loaded session. */
export type SessionContext = {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly limits: Limits;
  readonly tables: Tables;
  readonly access: Access;
  readonly sockets: SessionSockets;
};

/** The deadlines of a session. */
export type SessionDeadline =
  | "place"
  | "agent-start"
  | "idle"
  | "permission"
  | "archive"
  | "index"
  | "release"
  | "host-token"
  | "webhook-messages";

/** The parts of a loaded session. A module that works with some of them takes a `Pick` of this type. */
export type SessionParts = {
  readonly journal: Journal;
  readonly archive: HistoryArchive;
  readonly concealed: ConcealedValues;
  readonly clients: Clients;
  readonly link: HostLink;
  readonly watchers: LogWatchers;
  readonly deadlines: Deadlines<SessionDeadline>;
  readonly index: IndexWriter;
  readonly webhooks: WebhookOutbox;
};

/** Loads the parts from storage. Input that a part discovers itself, such as a lost client, goes to `record`. */
export function loadParts(
  { ctx, env, limits, tables, access }: SessionContext,
  record: Recorder,
): SessionParts {
  const { sql } = ctx.storage;
  const journal = new Journal(sql, tables, limits);
  const archive = new HistoryArchive(env.ARCHIVE, journal, limits);
  const concealed = new ConcealedValues(sql);
  const deadlines = new Deadlines<SessionDeadline>(ctx.storage);
  const isCurrent = (state: SessionState) => journal.state === state;
  return {
    journal,
    archive,
    concealed,
    deadlines,
    clients: new Clients(
      sql,
      journal,
      archive,
      (connection) => env.ACP_CONNECTION_DO.getByName(connection),
      (connection) => record((batch) => ioClientGone(batch, connection)),
      limits,
    ),
    link: new HostLink(ctx, journal, concealed, limits),
    watchers: new LogWatchers(ctx, journal, archive, limits),
    index: new IndexWriter(
      env.INDEX,
      (state) => isCurrent(state) && !access.isRevoked,
      () => deadlines.setUnlessSet("index", Date.now() + limits.indexRetryMs),
    ),
    webhooks: new WebhookOutbox(ctx, limits, deadlines, (state) => workspaceObjectOf(env, state), isCurrent),
  };
}

/** The workspace of a session; undefined before the session is opened. */
export function workspaceObjectOf(env: Env, { identity }: SessionState) {
  return identity ? workspaceObject(env, identity.tenant, identity.workspace) : undefined;
}
