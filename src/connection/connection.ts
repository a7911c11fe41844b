import { DurableObject } from "cloudflare:workers";
import type { Caller } from "../protocol/caller.ts";
import { answerClose } from "../protocol/close.ts";
import {
  ErrorCode,
  errorResponse,
  type RpcError,
  resultResponse,
  unknownSession,
} from "../protocol/errors.ts";
import { type Frame, isFault, readFrame } from "../protocol/frame.ts";
import { isUuid, parseClientRequestId } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { ClientPort, Page } from "../session/fanout.ts";
import { checkInitialize, initializeResult } from "./initialize.ts";
import { Outbox, type Refusal } from "./outbox.ts";

/** What the Worker tells a connection when it hands over the socket. */
export type Handover = { connection: string; caller: Caller; workspace: string; agent: string | null };

/** Everything the object knows, kept on the socket: it lives as long as the connection and survives hibernation. */
type Attachment = Handover & {
  initialized: boolean;
  /** Frames sent on to sessions so far. */
  sent: number;
  /** How far each session has been delivered, and since which attachment. */
  cursors: Record<string, { attach: number; upTo: number }>;
};

/**
 * One client connection: speaks JSON-RPC with one client and passes its frames to the sessions they name.
 * Ids need no table here: a session answers in the client's own ids, and the ids of an agent's requests say
 * which session they belong to.
 */
export class AcpConnection extends DurableObject<Env> implements ClientPort {
  #outboxes = new Map<string, Outbox>();
  /** Frames are routed in the order they came, also while one waits for the workspace. */
  #routing: Promise<void> = Promise.resolve();
  #attachment: Attachment | undefined;

  override async fetch(request: Request): Promise<Response> {
    const handover = JSON.parse(request.headers.get("X-Acp-Handover") ?? "") as Handover;
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    server.serializeAttachment({
      ...handover,
      initialized: false,
      sent: 0,
      cursors: {},
    } satisfies Attachment);
    return new Response(null, {
      status: 101,
      webSocket: client,
      headers: { "Acp-Connection-Id": handover.connection },
    });
  }

  // ---- from the client --------------------------------------------------------------------------------

  override webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    this.#routing = this.#routing
      .then(() => this.#receive(ws, message))
      .catch((error: unknown) => {
        console.error("connection failed", { error: String(error) });
        ws.close(1011, "internal error");
      });
    return this.#routing;
  }

  override async webSocketClose(ws: WebSocket, code: number, reason: string): Promise<void> {
    answerClose(ws, code, reason);
    const { connection, cursors } = this.#attached(ws);
    this.#attachment = undefined;
    await Promise.all(Object.keys(cursors).map((sessionId) => this.#session(sessionId).detach(connection)));
  }

  async #receive(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    if (typeof message !== "string") return;
    if (message.length > LIMITS.frameChars) {
      const error = {
        code: ErrorCode.invalidRequest,
        message: `Message exceeds ${LIMITS.frameChars} characters`,
      };
      ws.send(errorResponse("null", error));
      return ws.close(1009, "message too big");
    }
    const frame = readFrame(message);
    if (isFault(frame)) return ws.send(errorResponse("null", FAULTS[frame.fault]));
    if (frame.kind === "invalid") return ws.send(errorResponse("null", FAULTS["not-object"]));
    if ((frame.idText?.length ?? 0) > LIMITS.idChars + 2 || (frame.sessionId?.length ?? 0) > LIMITS.idChars)
      return ws.close(1008, "id too long");
    const state = this.#attached(ws);
    if (frame.method === "initialize" && frame.kind === "request") return this.#initialize(ws, state, frame);
    if (!state.initialized) return ws.close(1002, "initialize first");
    await this.#route(ws, state, frame);
  }

  async #initialize(ws: WebSocket, state: Attachment, frame: Frame): Promise<void> {
    const id = frame.idText as string;
    const error = state.initialized
      ? { code: ErrorCode.invalidRequest, message: "Already initialized" }
      : checkInitialize(frame.value.params);
    if (error) return ws.send(errorResponse(id, error));
    const choice = await this.#workspace(state).choose(state.agent);
    if ("unknown" in choice) {
      const message = `Unknown agent "${choice.unknown}"; this workspace has: ${choice.known.join(", ")}`;
      return ws.send(
        errorResponse(id, { code: ErrorCode.invalidParams, message, data: { agents: choice.known } }),
      );
    }
    this.#save(ws, { ...state, initialized: true, agent: choice.agent });
    ws.send(
      resultResponse(id, initializeResult(choice.initialize === null ? null : JSON.parse(choice.initialize))),
    );
  }

  async #route(ws: WebSocket, state: Attachment, frame: Frame): Promise<void> {
    if (frame.kind === "response") {
      // A response nobody asked for has nowhere to go and nothing to answer it with.
      const target = parseClientRequestId(frame.value.id)?.sessionId;
      return target === undefined ? undefined : this.#forward(ws, target, frame);
    }
    if (frame.method === "session/new") return this.#open(ws, state, frame);
    if (frame.method === "session/delete" && frame.kind === "request") return this.#delete(ws, state, frame);
    if (frame.sessionId !== undefined) return this.#forward(ws, frame.sessionId, frame);
    if (frame.method === "$/cancel_request") {
      // It names a request, not a session: the one that has it will know.
      for (const sessionId of Object.keys(state.cursors)) this.#forward(ws, sessionId, frame);
      return;
    }
    if (frame.kind === "request") {
      const error = sessionScoped(frame)
        ? NO_SESSION_ID
        : { code: ErrorCode.methodNotFound, message: `Method not found: ${frame.method}` };
      ws.send(errorResponse(frame.idText as string, error));
    }
  }

  async #open(ws: WebSocket, state: Attachment, frame: Frame): Promise<void> {
    const refuse = (error: RpcError) => ws.send(errorResponse(frame.idText ?? "null", error));
    if (frame.kind !== "request") return;
    const error = checkNewSession(frame.value.params);
    if (error) return refuse(error);
    if (Object.keys(state.cursors).length >= LIMITS.sessionsPerConnection) {
      return refuse({
        code: ErrorCode.invalidRequest,
        message: `A connection has at most ${LIMITS.sessionsPerConnection} sessions`,
      });
    }
    const sessionId = crypto.randomUUID();
    const { connection, caller, workspace } = state;
    this.#save(ws, { ...state, cursors: { ...state.cursors, [sessionId]: { attach: 0, upTo: 0 } } });
    await this.#session(sessionId).open({
      sessionId,
      connection,
      caller,
      workspace,
      agent: state.agent ?? "",
      raw: frame.raw,
    });
  }

  /** Deleting what is not there, or not the caller's, succeeds as well. */
  async #delete(ws: WebSocket, state: Attachment, frame: Frame): Promise<void> {
    const { sessionId } = frame;
    if (sessionId === undefined) return ws.send(errorResponse(frame.idText as string, NO_SESSION_ID));
    if (isUuid(sessionId)) await this.#session(sessionId).delete(state.caller);
    ws.send(resultResponse(frame.idText as string, {}));
  }

  /** Puts a frame in the session's outbox; a session that does not know the caller answers as if it did not exist. */
  #forward(ws: WebSocket, sessionId: string, frame: Frame): void {
    const refuse = (why: Refusal) => {
      if (frame.kind !== "request") return;
      const error =
        why === "unknown"
          ? unknownSession(sessionId)
          : { code: ErrorCode.internal, message: "The session could not be reached" };
      ws.send(errorResponse(frame.idText as string, error));
    };
    if (!isUuid(sessionId)) return refuse("unknown");
    let outbox = this.#outboxes.get(sessionId);
    if (!outbox) {
      outbox = new Outbox((frames) => this.#send(ws, sessionId, frames));
      this.#outboxes.set(sessionId, outbox);
    }
    this.ctx.waitUntil(outbox.put(frame.raw, refuse));
  }

  /** One batch for one session, numbered, so that a call repeated after a reset of the session counts once. */
  async #send(ws: WebSocket, sessionId: string, frames: string[]): Promise<boolean> {
    const state = this.#attached(ws);
    const first = state.sent + 1;
    this.#save(ws, { ...state, sent: state.sent + frames.length });
    const { connection, caller } = state;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#session(sessionId).receive({ connection, caller, first, frames });
      } catch (error) {
        if (attempt === 3) throw error;
      }
    }
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  async position(sessionId: string, attach: number): Promise<{ upTo: number | null } | null> {
    const ws = this.#socket();
    if (!ws) return null;
    const cursor = this.#attached(ws).cursors[sessionId];
    return { upTo: cursor?.attach === attach ? cursor.upTo : null };
  }

  async deliver(sessionId: string, { attach, upTo, frames }: Page): Promise<boolean> {
    const ws = this.#socket();
    if (!ws) return false;
    const state = this.#attached(ws);
    const cursor = state.cursors[sessionId];
    // The page may be here already: its sender was reset before it learnt so.
    if (cursor?.attach === attach && upTo <= cursor.upTo) return true;
    for (const frame of frames) ws.send(frame);
    this.#save(ws, { ...state, cursors: { ...state.cursors, [sessionId]: { attach, upTo } } });
    return true;
  }

  // ---- state ------------------------------------------------------------------------------------------

  #socket(): WebSocket | undefined {
    return this.ctx.getWebSockets().find((ws) => ws.readyState === WebSocket.OPEN);
  }

  #attached(ws: WebSocket): Attachment {
    this.#attachment ??= ws.deserializeAttachment() as Attachment;
    return this.#attachment;
  }

  #save(ws: WebSocket, attachment: Attachment): void {
    this.#attachment = attachment;
    ws.serializeAttachment(attachment);
  }

  #session(sessionId: string) {
    return this.env.ACP_SESSION_DO.getByName(sessionId);
  }

  #workspace({ caller, workspace }: Attachment) {
    return this.env.WORKSPACE_STATE_DO.getByName(`${caller.tenant}/${workspace}`);
  }
}

const FAULTS = {
  parse: { code: ErrorCode.parse, message: "Parse error" },
  batch: { code: ErrorCode.invalidRequest, message: "JSON-RPC batches are not supported" },
  "not-object": { code: ErrorCode.invalidRequest, message: "Invalid Request" },
} as const satisfies Record<string, RpcError>;

const NO_SESSION_ID: RpcError = {
  code: ErrorCode.invalidParams,
  message: "params.sessionId must be a string",
};

function sessionScoped(frame: Frame): boolean {
  return frame.method?.startsWith("session/") === true && frame.method !== "session/list";
}

function checkNewSession(params: unknown): RpcError | undefined {
  const cwd = (params as { cwd?: unknown } | null | undefined)?.cwd;
  return typeof cwd === "string"
    ? undefined
    : { code: ErrorCode.invalidParams, message: "params.cwd must be a string" };
}
