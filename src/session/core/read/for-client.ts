import { childSessionId, translateNamedSessions } from "../../../protocol/child-session-id.ts";
import type { Subscriptions } from "../../../protocol/client-subscriptions.ts";
import { notification } from "../../../protocol/errors.ts";
import { type AgentStatusNotice, ExtensionMethod, MetaKey } from "../../../protocol/extensions.ts";
import { type Frame, paramsOf, type Rewrite, rewrite } from "../../../protocol/frame.ts";
import { clientRequestId } from "../../../protocol/ids.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import type { Facts } from "../events/catalogue.ts";
import { type FactEvent, type FrameEvent, isFact, isFrame, type LogEvent } from "../events/event.ts";
import { exitUpdate, outputUpdate } from "../state/terminal-meta.ts";
import { inClientForm, type Receiver } from "./client-form.ts";

/**
 * The messages that a client gets for an event of the log. They depend on the event and the client alone, so that a
 * live stream, a replay and a resumed cursor cannot differ.
 */

/**
 * A client that reads the log. Up to the event `replayUntil` it gets the conversation, after that everything. It gets
 * the agent's requests, and the notice that one is settled, only if it `answers`. Messages beyond ACP go to clients that
 * subscribe to them.
 */
export type Viewer = {
  readonly connection: string;
  /** The lost connection that this one continues. */
  readonly as?: string | undefined;
  readonly replayUntil: number;
  /** The client has seen nothing of the events up to this one. */
  readonly from?: number | undefined;
  readonly answers: boolean;
  readonly subscriptions: Subscriptions;
};

function isViewer({ connection, as }: Viewer, other: string | undefined): boolean {
  return other === connection || (as !== undefined && other === as);
}

/** The messages that a client gets for an event, mostly one or none. */
export function forClient(event: LogEvent, sessionId: string, viewer: Viewer): string[] {
  const replay = event.seq <= viewer.replayUntil;
  if (!isFrame(event)) {
    if (!isFact(event)) return [];
    return isTerminalFact(event)
      ? terminalUpdate(event, sessionId, viewer)
      : replay || !viewer.subscriptions.agent
        ? []
        : agentStatusNotice(event);
  }
  if (event.direction === "out") {
    // A prompt that was refused, or that repeats another, is not part of the conversation. A prompt that waits is not
    // part of it yet: readers of the log get it where its turn begins.
    const said = event.frame.method === "session/prompt" && !isUnsaid(event);
    return said && (replay || !isViewer(viewer, event.route.connection)) ? promptEcho(event, sessionId) : [];
  }
  if (replay && (event.frame.method !== "session/update" || isNotice(event.frame))) return [];
  const { to, except } = event.route;
  if (to !== undefined && !isViewer(viewer, to))
    return viewer.subscriptions.turnEnds ? turnEnd(event, viewer) : [];
  // A client that loads the session anew has forgotten why it was left out.
  if (!replay && except !== undefined && isViewer(viewer, except)) return [];
  if (!viewer.answers && asksClient(event)) return [];
  // The gateway's own frames are in the client's terms already, except in a copy of the session under another id.
  const isOurs = event.source === "gateway";
  if (!isOurs && event.route.stop !== undefined) return [];
  const text = isOurs
    ? rewrite(event.frame, { sessionId: JSON.stringify(sessionId) })
    : fromAgent(event, sessionId);
  const form = text && inClientForm(text, event, receiverOf(viewer, event, replay));
  return form === undefined ? [] : [form];
}

/**
 * A client that loads the session anew does not know the terminals of the past, not even its own. A client that attached
 * without a replay does not know those that were announced before.
 */
function receiverOf(viewer: Viewer, { route, seq }: FrameEvent, replay: boolean): Receiver {
  const { terminalsOf: owner, announcedAt = seq } = route;
  const { abilities = [] } = viewer.subscriptions;
  return {
    abilities: knows(viewer, announcedAt)
      ? abilities
      : abilities.filter((ability) => ability !== "terminal-output"),
    hasTerminals: !replay && owner !== undefined && isViewer(viewer, owner),
  };
}

/** Whether the client has been told what this event announces. */
function knows({ from = 0 }: Viewer, announcedAt: number): boolean {
  return announcedAt > from;
}

type TerminalFact = FactEvent<"terminal.output" | "terminal.ended">;

function isTerminalFact(event: FactEvent): event is TerminalFact {
  return event.kind === "terminal.output" || event.kind === "terminal.ended";
}

/** The news of a terminal that the host serves, by the convention for it. Other clients get the output as text. */
function terminalUpdate({ kind, payload }: TerminalFact, sessionId: string, viewer: Viewer): string[] {
  const { toolCallId, terminalId, announcedAt } = payload;
  if (toolCallId === null || !viewer.subscriptions.abilities?.includes("terminal-output")) return [];
  if (announcedAt !== undefined && !knows(viewer, announcedAt)) return [];
  // A redacted event has no data.
  if (kind === "terminal.output" && payload.data === undefined) return [];
  const update =
    kind === "terminal.output"
      ? outputUpdate(toolCallId, terminalId, payload.data)
      : exitUpdate(toolCallId, terminalId, { code: payload.exitCode, signal: payload.signal });
  return [notification("session/update", { sessionId, update })];
}

/** The answer to another client's prompt, as a notification. Clients that repeated the prompt get it as an answer. */
function turnEnd({ frame, route, requestId }: FrameEvent, { connection }: Viewer): string[] {
  if (frame.kind !== "response" || requestId === undefined || route.also?.includes(connection)) return [];
  const { result, error } = frame.value;
  return [notification(ExtensionMethod.turnEnded, error === undefined ? { result } : { error })];
}

function agentStatusNotice(event: FactEvent): string[] {
  const notice = noticeFor(event);
  return notice ? [notification(ExtensionMethod.agentStatus, notice)] : [];
}

function noticeFor({ kind, payload }: FactEvent): AgentStatusNotice | undefined {
  switch (kind) {
    case "error":
      return isAgentFailure(payload) ? { status: "error", error: String(payload.message) } : undefined;
    case "runtime.reconnect_attempt":
      return { status: "restarting" };
    case "session.rebound":
      return { status: "ready" };
    case "session.loaded":
      // With a method a new process loaded the session; otherwise a client did.
      return payload.method === undefined ? undefined : { status: "ready" };
    default:
      return undefined;
  }
}

/** Whether an `error` means that the agent failed. A violation of a running agent is no failure. */
export function isAgentFailure({ origin, violation }: Facts["error"]): boolean {
  return origin === "agent" && violation === undefined;
}

function asksClient({ frame }: FrameEvent): boolean {
  return frame.kind === "request" || frame.method === "$/cancel_request";
}

/**
 * A notice, of the agent or of the gateway, concerns the moment, so a replay leaves it out. The secret values that an
 * import lacks concern the session for as long as it lives, and nobody was attached when it was imported.
 */
function isNotice(frame: Frame): boolean {
  const { sessionUpdate, _meta } = recordOf(paramsOf(frame).update);
  const event = recordOf(_meta)[MetaKey.noticeEvent];
  return sessionUpdate === "notice" || (event !== undefined && event !== "session.imported");
}

/** Whether an event of the agent is about this session, and not about that of a sub-agent. */
export function isOwn({ frame, route, context }: FrameEvent): boolean {
  return context.acpSessionId === null || frame.sessionId === context.acpSessionId || route.early === true;
}

/** The session that a frame of the agent names, under the client's id: this one, or that of a sub-agent. */
function namedSession(event: FrameEvent, sessionId: string): string | undefined {
  const { frame } = event;
  // A person answers a request for the session in which it is shown, so a request is always about this one.
  if (frame.kind !== "notification" || frame.sessionId === undefined || isOwn(event)) return sessionId;
  return childSessionId(sessionId, frame.sessionId);
}

/** An update that names sessions has them under the clients' ids. */
function withNamedSessions(raw: string, { frame, context }: FrameEvent, sessionId: string): string {
  const { sessionUpdate } = recordOf(paramsOf(frame).update);
  if (sessionUpdate !== "subagent_update" && sessionUpdate !== "session_message") return raw;
  return translateNamedSessions(raw, (id) =>
    id === context.acpSessionId ? sessionId : childSessionId(sessionId, id),
  );
}

/** Undefined if the frame names a session that clients cannot know. */
function fromAgent(event: FrameEvent, sessionId: string): string | undefined {
  const named = namedSession(event, sessionId);
  return named && withNamedSessions(rendered(event, sessionId, named), event, sessionId);
}

function rendered({ frame, route, seq }: FrameEvent, sessionId: string, named: string): string {
  const session = { sessionId: JSON.stringify(named) };
  switch (frame.kind) {
    case "request":
      return rewrite(frame, {
        ...session,
        ...directoryOf(frame, sessionId, route.path),
        id: JSON.stringify(clientRequestId(sessionId, seq)),
        ...(route.requestId === undefined ? {} : { requestId: route.requestId }),
      });
    case "response":
      return rewrite(frame, { ...session, ...(route.id === undefined ? {} : { id: route.id }) });
    default:
      return route.re === undefined
        ? rewrite(frame, session)
        : rewrite(frame, { ...session, requestId: JSON.stringify(clientRequestId(sessionId, route.re)) });
  }
}

/** The path of a file or of a terminal's directory. A request without a directory gets one beside its session. */
function directoryOf({ method, spans }: Frame, sessionId: string, path: string | undefined): Rewrite {
  if (path === undefined) return {};
  if (method !== "terminal/create") return { path };
  return spans.cwd ? { cwd: path } : { sessionId: `${JSON.stringify(sessionId)},"cwd":${path}` };
}

function isUnsaid({ route: { stop } }: FrameEvent): boolean {
  return stop === "gateway" || stop === "held";
}

/** A prompt as clients see it that did not send it. */
function promptEcho(event: FrameEvent, sessionId: string): string[] {
  const { prompt } = paramsOf(event.frame);
  if (!Array.isArray(prompt)) return [];
  return prompt.map((content: unknown) =>
    notification("session/update", { sessionId, update: { sessionUpdate: "user_message_chunk", content } }),
  );
}
