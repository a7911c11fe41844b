import { Deadlines } from "../durable/deadlines.ts";
import { callObject } from "../durable/object-call.ts";
import { connectionObject, owningTenant, type WorkspaceObject, workspaceObject } from "../durable/objects.ts";
import type { Tables } from "../durable/schema.ts";
import { SocketRegistrar } from "../durable/socket-registrar.ts";
import { closeRegistered, registeredSockets } from "../durable/socket-registration.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Access } from "./access.ts";
import { noteSkippedMessage } from "./core/decide/skipped-message.ts";
import type { SessionState } from "./core/state/state.ts";
import { FrameTries } from "./frame-tries.ts";
import { ItemTries } from "./item-tries.ts";
import { ConcealedValues } from "./log/concealed-values.ts";
import { HistoryArchive } from "./log/history-archive.ts";
import { Journal, type Recorder } from "./log/journal.ts";
import { Enrolment } from "./outbox/enrolment.ts";
import { IndexWriter } from "./outbox/index-writer.ts";
import { WebhookOutbox } from "./outbox/webhook-outbox.ts";
import { Clients } from "./readers/clients.ts";
import { ConnectionNames } from "./readers/connection-names.ts";
import { HostLink } from "./readers/host-link.ts";
import { LogWatchers } from "./readers/log-watchers.ts";
import { ReadBudget } from "./readers/read-budget.ts";
import type { Removal } from "./removal.ts";
import type { SessionSockets } from "./session-sockets.ts";

/** The parts of the object that outlive one loaded session. */
export type SessionContext = {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly limits: Limits;
  readonly tables: Tables;
  readonly access: Access;
  readonly sockets: SessionSockets;
  readonly removal: Removal;
};

/** The deadlines of a session. */
export type SessionDeadline =
  | "place"
  /** A client could not be reached: its frames are sent again. */
  | "delivery"
  /** An effect of events that are in the log has failed. */
  | "effects"
  | "login"
  | "agent-start"
  /** A process has not answered the requests for the settings of the process before. */
  | "settings"
  /** The process of a closed session has had its time to answer. */
  | "farewell"
  | "idle"
  | "permission"
  | "archive"
  | "rest"
  | "index"
  | "release"
  | "host-token"
  | "registration"
  | "webhook-messages";

/** The parts of a loaded session. A module that works with some of them takes a `Pick` of this type. */
export type SessionParts = {
  readonly journal: Journal;
  readonly archive: HistoryArchive;
  readonly concealed: ConcealedValues;
  readonly clients: Clients;
  readonly names: ConnectionNames;
  readonly readBudget: ReadBudget;
  readonly link: HostLink;
  readonly watchers: LogWatchers;
  readonly deadlines: Deadlines<SessionDeadline>;
  readonly registrar: SocketRegistrar;
  readonly index: IndexWriter;
  readonly webhooks: WebhookOutbox;
  readonly enrolment: Enrolment;
  readonly itemTries: ItemTries;
  readonly frameTries: FrameTries;
};

/** Loads the parts from storage. `clientGone` is called for a client that turns out to be gone; `record` is for later. */
export function loadParts(
  { ctx, env, limits, tables, access }: SessionContext,
  clientGone: (connection: string) => void,
  record: Recorder,
): SessionParts {
  const { sql } = ctx.storage;
  const journal = new Journal(ctx.storage, tables, limits);
  const archive = new HistoryArchive(env.ARCHIVE, journal, limits);
  const concealed = new ConcealedValues(sql, limits);
  const deadlines = new Deadlines<SessionDeadline>(ctx.storage);
  const names = new ConnectionNames(ctx.storage.kv);
  const isCurrent = (state: SessionState) => journal.state === state;
  const enrolment = new Enrolment(ctx.storage.kv, env, limits.callMs, isCurrent);
  return {
    journal,
    archive,
    concealed,
    deadlines,
    registrar: new SocketRegistrar({
      ...{ ctx, env, limits, deadlines },
      isOpen: (id) => registeredSockets(ctx, id).length > 0,
      end: (id, reason, code) => closeRegistered(ctx, id, reason, code),
    }),
    names,
    itemTries: new ItemTries(ctx.storage),
    frameTries: new FrameTries(ctx.storage),
    readBudget: new ReadBudget(ctx.storage.kv, limits.readerLogCharsPerHour),
    clients: new Clients(
      ctx.storage,
      journal,
      archive,
      (connection) => connectionObject(env, owningTenant(ctx.id), connection),
      {
        gone: clientGone,
        unreachable: () => deadlines.setUnlessSet("delivery", Date.now() + DELIVERY_RETRY_MS),
      },
      limits,
    ),
    link: new HostLink(ctx, journal, concealed, limits),
    watchers: new LogWatchers(ctx, journal, archive, names, limits),
    index: new IndexWriter(
      env.INDEX,
      isCurrent,
      () => !access.isRevoked,
      (state) => enrolment.complete(state),
      () => deadlines.setUnlessSet("index", Date.now() + limits.indexRetryMs),
    ),
    enrolment,
    webhooks: new WebhookOutbox(
      ctx,
      limits,
      deadlines,
      (state, messages) => callWorkspace({ env, limits }, state, (workspace) => workspace.notify(messages)),
      (message, tries) => record((batch) => noteSkippedMessage(batch, message, tries)),
      isCurrent,
    ),
  };
}

/** Pause after the tries of a delivery have failed; the deadline's own pauses follow. */
const DELIVERY_RETRY_MS = 2000;

/**
 * Calls the workspace of a session; resolves to undefined before the session is opened. The call may be made more than
 * once.
 */
export async function callWorkspace<R>(
  { env, limits }: Pick<SessionContext, "env" | "limits">,
  { identity }: SessionState,
  call: (workspace: WorkspaceObject) => R,
): Promise<Awaited<R> | undefined> {
  if (!identity) return undefined;
  const { tenant, workspace } = identity;
  return callObject(() => workspaceObject(env, tenant, workspace), call, { timeoutMs: limits.callMs });
}
