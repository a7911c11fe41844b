import type { Caller, Scope } from "../../../../src/protocol/caller.ts";
import type { ClientAbility } from "../../../../src/protocol/client-abilities.ts";
import type { CloseMeaning } from "../../../../src/protocol/close-meaning.ts";
import { mustReadFrame } from "../../../../src/protocol/frame.ts";
import { DEFAULT_LIMITS, type Limits } from "../../../../src/protocol/limits.ts";
import { OPEN_RULES, type OpeningRules } from "../../../../src/protocol/opening-rules.ts";
import type { DuplicateChunks } from "../../../../src/protocol/workspace-settings.ts";
import { Batch } from "../../../../src/session/core/decide/batch.ts";
import type { IoClient } from "../../../../src/session/core/decide/client-files.ts";
import { clientFrame, open } from "../../../../src/session/core/decide/client-frames.ts";
import { hostHello } from "../../../../src/session/core/decide/host-greeting.ts";
import { hostItem } from "../../../../src/session/core/decide/host-items.ts";
import { type FrameEvent, isFrame, type LogEvent } from "../../../../src/session/core/events/event.ts";
import { initialState, type SessionState } from "../../../../src/session/core/state/state.ts";

export type Json = Record<string, unknown>;

/**
 * A session without storage and sockets: inputs go through the decisions, and the log is an array. Each method returns
 * the events that its input became.
 */
export class SessionScript {
  readonly state: SessionState = initialState("11111111-2222-4333-8444-555555555555");
  readonly log: LogEvent[] = [];
  readonly limits: Limits;
  /** Clients that could serve files and terminals. */
  serving: IoClient[] = [];
  /** Connections that the agent's requests are put to. */
  answering: string[] = ["c1"];
  /** The workspace's setting for `session/close`. */
  closeMeans: CloseMeaning = "auto";
  /** The abilities of every client that sends a message. */
  abilities: ClientAbility[] = [];
  /** The workspace's rules for openings by clients. */
  opening: OpeningRules = OPEN_RULES;
  /** The workspace's setting of this name, for processes that come later. */
  duplicateChunks: DuplicateChunks = "replay";
  now = 1_000_000;
  #ids = 0;
  #turns = 0;

  constructor(limits: Partial<Limits> = {}) {
    this.limits = { ...DEFAULT_LIMITS, ...limits };
  }

  step(decide: (batch: Batch) => void): LogEvent[] {
    const batch = new Batch(this.state, this.now, this.limits, (seq) => this.log[seq - 1]);
    decide(batch);
    this.log.push(...batch.events);
    return batch.events;
  }

  // ---- clients

  open(cwd = "/editor"): LogEvent[] {
    const owner = { tenant: "t", owner: "me", workspace: "w", agent: "codex" };
    const frame = mustReadFrame(message({ id: 0, method: "session/new", params: { cwd, mcpServers: [] } }));
    return this.step((batch) => open(batch, "c1", frame, owner));
  }

  /** A client sends any message. */
  client(said: Json | string, connection = "c1", caller = callerWith()): LogEvent[] {
    const frame = mustReadFrame(typeof said === "string" ? said : message(said));
    const client = { connection, caller, answering: this.answering, abilities: this.abilities };
    const newTurnId = () => {
      this.#turns += 1;
      return `turn_${this.#turns}`;
    };
    return this.step((batch) => clientFrame(batch, client, frame, newTurnId));
  }

  request(method: string, params: Json = {}, connection = "c1"): LogEvent[] {
    this.#ids += 1;
    return this.client(
      { id: this.#ids, method, params: { sessionId: this.state.sessionId, ...params } },
      connection,
    );
  }

  prompt(text: string, meta?: Json, connection = "c1"): LogEvent[] {
    const params = { prompt: [{ type: "text", text }], ...(meta && { _meta: meta }) };
    return this.request("session/prompt", params, connection);
  }

  // ---- the host

  /** `io` is the workspace's decision who serves files and terminals. */
  hello(
    run = "run-1",
    host = "h1",
    more: { draining?: boolean; io?: "host" | "client" } = {},
    io = more.io ?? "host",
  ): LogEvent[] {
    const place = { agent: "codex", host, root: "/host/root" };
    const { processRequest } = this.state;
    const hello = {
      t: "hello",
      run,
      ...place,
      processRequest,
      delivered: 0,
      draining: false,
      ...more,
    } as const;
    const { opening, closeMeans, duplicateChunks } = this;
    const placement = { host, io, opening, closeMeans, duplicateChunks };
    return this.step((batch) => void hostHello(batch, hello, placement));
  }

  item(line: string): LogEvent[] {
    return this.step((batch) => hostItem(batch, line, () => this.serving));
  }

  exit(code: number | null = 1, stderr = ""): LogEvent[] {
    return this.item(JSON.stringify(["exit", { code, signal: null, stderr }]));
  }

  // ---- the agent

  agent(said: Json): LogEvent[] {
    return this.item(message(said));
  }

  answer(id: number, result: unknown): LogEvent[] {
    return this.agent({ id, result });
  }

  update(update: Json, sessionId = "agent-session"): LogEvent[] {
    return this.agent({ method: "session/update", params: { sessionId, update } });
  }

  askPermission(id: number | string = "p", more: Json = {}): LogEvent[] {
    const toolCall = { toolCallId: "t1", title: "Write a file", kind: "edit" };
    const params = { sessionId: "agent-session", toolCall, options: OPTIONS, ...more };
    return this.agent({ id, method: "session/request_permission", params });
  }

  // ---- the log

  /** The last frame of the log that fits. */
  frame(fits: (event: FrameEvent) => boolean): FrameEvent {
    const found = this.log.findLast((event): event is FrameEvent => isFrame(event) && fits(event));
    if (!found) throw new Error("There is no such frame in the log");
    return found;
  }
}

const OPTIONS = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];

/** A session whose process has opened it. */
export function openSession(
  limits: Partial<Limits> = {},
  { capabilities = {}, io }: { capabilities?: Json; io?: "host" | "client" } = {},
): SessionScript {
  const session = new SessionScript(limits);
  session.open();
  startProcess(session, "run-1", capabilities, io);
  session.answer(seqOf(session.log, "session/new", "gateway"), { sessionId: "agent-session" });
  return session;
}

/** The process says hello and answers the host's `initialize`; the session then asks it to open the agent session. */
export function startProcess(
  session: SessionScript,
  run = "run-1",
  agentCapabilities: Json = {},
  io: "host" | "client" = "host",
): LogEvent[] {
  session.hello(run, "h1", { io });
  session.item(JSON.stringify(["started", { pid: 7, command: "codex" }]));
  session.item(JSON.stringify(["sent", message({ id: "init", method: "initialize", params: {} })]));
  return session.agent({ id: "init", result: { protocolVersion: 1, agentCapabilities } });
}

/** The sequence number of the last frame of that method from that source. */
export function seqOf(log: readonly LogEvent[], method: string, source: string): number {
  const found = log.findLast(
    (event) => isFrame(event) && event.frame.method === method && event.source === source,
  );
  if (!found) throw new Error(`There is no ${method} of the ${source} in the log`);
  return found.seq;
}

export function callerWith(...scopes: Scope[]): Caller {
  const all: Scope[] = ["session:read", "session:prompt", "permission:answer"];
  return {
    tenant: "t",
    subject: "me",
    workspaces: ["*"],
    scopes: scopes.length > 0 ? scopes : all,
    expires: 2e9,
  };
}

export function message(said: Json): string {
  return JSON.stringify({ jsonrpc: "2.0", ...said });
}

/** Events in short: the kind of a fact; source, direction and method (or kind of frame) of a frame. */
export function brief(events: readonly LogEvent[]): string[] {
  return events.map((event) =>
    isFrame(event)
      ? [event.source, event.direction, event.frame.method ?? event.frame.kind, event.route.stop]
          .filter((part) => part !== undefined)
          .join(" ")
      : event.kind,
  );
}

/** The payload of the only event of that kind. */
export function payloadOf(events: readonly LogEvent[], kind: string): unknown {
  const [event, ...more] = events.filter((one) => one.kind === kind);
  if (!event || isFrame(event) || more.length > 0) throw new Error(`There is not one ${kind}`);
  return event.payload;
}

/** The JSON of the last frame. */
export function lastMessage(events: readonly LogEvent[]): Json {
  const found = events.findLast(isFrame);
  if (!found) throw new Error("There is no frame");
  return found.frame.value as Json;
}
