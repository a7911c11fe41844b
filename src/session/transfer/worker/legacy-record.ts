import { ulid } from "ulid";
import { z } from "zod";
import { schemaFault } from "../../../protocol/schema-fault.ts";
import type { FactKind, Facts } from "../../core/events/catalogue.ts";
import { type Context, envelope, type FactEvent } from "../../core/events/event.ts";
import { ImportError } from "../import-error.ts";

/**
 * Reads the older record of acpx: one JSON document with previews of the turns instead of a log. The result is a log
 * whose events say no more than the record does; each event is marked `synthetic`.
 */
export function readLegacyRecord(bytes: Uint8Array): { recordId: string; cwd: string | null; lines: string } {
  const record = parseRecord(bytes);
  const recordId = record.acpxRecordId ?? record.id;
  if (recordId === undefined) throw new ImportError("acpxRecordId (or id) is missing", "record", 1);
  const lines = eventsOf(record).map((event) => `${envelope(event, recordId, ulid(event.at))}\n`);
  return { recordId, cwd: record.cwd ?? null, lines: lines.join("") };
}

const DATE = z
  .union([z.iso.datetime({ offset: true }), z.number()])
  .transform((at) => new Date(at).getTime());

const RECORD = z.looseObject({
  acpxRecordId: z.string().min(1).optional(),
  id: z.string().min(1).optional(),
  acpSessionId: z.string().nullish(),
  sessionId: z.string().nullish(),
  agentSessionId: z.string().nullish(),
  runtimeSessionId: z.string().nullish(),
  agentCommand: z.string().nullish(),
  cwd: z.string().optional(),
  name: z.string().nullish(),
  createdAt: DATE,
  lastUsedAt: DATE.optional(),
  closed: z.boolean().nullish(),
  closedAt: DATE.nullish(),
  pid: z.number().nullish(),
  agentStartedAt: DATE.nullish(),
  lastAgentExitAt: DATE.nullish(),
  lastAgentExitCode: z.number().nullish(),
  lastAgentExitSignal: z.string().nullish(),
  lastAgentDisconnectReason: z.string().nullish(),
  turnHistory: z.array(
    z.looseObject({
      role: z.string(),
      timestamp: DATE.optional(),
      textPreview: z.string(),
    }),
  ),
});
type LegacyRecord = z.infer<typeof RECORD>;

function parseRecord(bytes: Uint8Array): LegacyRecord {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
  } catch (error) {
    throw new ImportError(`not valid JSON: ${(error as Error).message}`, "record", 1);
  }
  const schema = (value as { schema?: unknown } | null)?.schema;
  if (schema === "acpx.session.v1")
    throw new ImportError("this is a projection; a session is imported from its events", "record", 1);
  const checked = RECORD.safeParse(value);
  if (checked.success) return checked.data;
  throw new ImportError(`not a session record: ${schemaFault(checked.error)}`, "record", 1);
}

function eventsOf(record: LegacyRecord): FactEvent[] {
  const events: FactEvent[] = [];
  const session: Context = {
    acpSessionId: record.acpSessionId ?? record.sessionId ?? null,
    agentSessionId: record.agentSessionId ?? record.runtimeSessionId ?? null,
    turnId: null,
  };
  const add = <Kind extends FactKind>(
    at: number,
    kind: Kind,
    payload: Facts[Kind],
    turnId: string | null = null,
  ) => {
    const event = {
      seq: events.length + 1,
      at,
      context: { ...session, turnId },
      source: "gateway",
      kind,
      payload: { synthetic: true, ...payload },
    };
    // The compiler cannot follow that `kind` and `payload` vary together.
    events.push(event as FactEvent);
  };
  const { createdAt, agentCommand = null, cwd = null, name = null, pid = null } = record;
  const lastUsedAt = record.lastUsedAt ?? createdAt;
  add(createdAt, "session.created", { acpSessionId: session.acpSessionId, agentCommand, cwd, name });
  if (session.agentSessionId !== null)
    add(createdAt, "session.agent_session_id.updated", { agentSessionId: session.agentSessionId });
  for (const { turnId, at, text, kind } of turnStepsOf(record.turnHistory, createdAt)) {
    const preview = text === null ? {} : { textPreview: text };
    if (kind === "started") add(at, "turn.started", { turnId, prompt: null, ...preview }, turnId);
    else add(at, "turn.completed", { turnId, prompt: null, stopReason: null, ...preview }, turnId);
  }
  const reason = record.lastAgentDisconnectReason ?? "the record says so";
  const exit = { code: record.lastAgentExitCode ?? null, signal: record.lastAgentExitSignal ?? null, reason };
  add(record.lastAgentExitAt ?? lastUsedAt, "queue.owner.stopped", {
    run: null,
    pid,
    ...exit,
    expected: true,
  });
  if (record.closed === true) add(record.closedAt ?? lastUsedAt, "session.closed", { by: "acpx" });
  return events;
}

/** The beginning or the end of a turn. `text` is the preview of the prompt or of the reply. */
type TurnStep = { turnId: string; kind: "started" | "completed"; at: number; text: string | null };

/**
 * An entry of the user begins a turn, and an entry of the assistant ends it. An entry without its counterpart makes a
 * turn of its own.
 */
function* turnStepsOf(history: LegacyRecord["turnHistory"], createdAt: number): Generator<TurnStep> {
  let count = 0;
  let open: string | null = null;
  let at = createdAt;
  for (const entry of history) {
    at = entry.timestamp ?? at;
    if (entry.role === "user") {
      if (open !== null) yield { turnId: open, kind: "completed", at, text: null };
      count += 1;
      open = `turn_synthetic_${count}`;
      yield { turnId: open, kind: "started", at, text: entry.textPreview };
      continue;
    }
    if (open === null) {
      count += 1;
      open = `turn_synthetic_${count}`;
      yield { turnId: open, kind: "started", at, text: null };
    }
    yield { turnId: open, kind: "completed", at, text: entry.textPreview };
    open = null;
  }
  if (open !== null) yield { turnId: open, kind: "completed", at, text: null };
}
