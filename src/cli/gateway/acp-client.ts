import { text } from "node:stream/consumers";
import {
  type AnyMessage,
  type ClientApp,
  type ClientCapabilities,
  type ClientConnection,
  client,
  type InitializeResponse,
  PROTOCOL_VERSION,
  RequestError,
  type SessionNotification,
  type Stream,
} from "@agentclientprotocol/sdk";
import { WebSocket } from "ws";
import type { Log } from "../../node/log.ts";
import { VERSION } from "../../node/version.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { ErrorCode } from "../../protocol/errors.ts";
import { DEFAULT_LIMITS } from "../../protocol/limits.ts";
import { CliError, describeError, EXIT, type ExitCode } from "../cli-error.ts";
import { openReconnectingLink } from "./reconnecting-link.ts";
import { refusalError } from "./refusal-error.ts";
import { acpUrl, type Target } from "./target.ts";

const HANDSHAKE_MS = 15_000;
/** How soon the command notices that the gateway is gone. */
const HEARTBEAT_MS = 5_000;

/** Opens an ACP socket. A refused token is retried once with a fresh one. */
export async function openSocket(target: Target): Promise<WebSocket> {
  const first = await dial(target, await target.token());
  const again = first instanceof CliError && first.code === EXIT.unauthorized;
  const outcome = again ? await dial(target, await target.token({ fresh: true })) : first;
  if (outcome instanceof WebSocket) return outcome;
  throw outcome;
}

/** The open socket, or the gateway's refusal. */
function dial(target: Target, token: string): Promise<WebSocket | CliError> {
  const socket = new WebSocket(acpUrl(target), {
    headers: { authorization: `Bearer ${token}` },
    perMessageDeflate: false,
    handshakeTimeout: HANDSHAKE_MS,
    maxPayload: 4 * DEFAULT_LIMITS.frameChars,
  });
  return new Promise((resolve, reject) => {
    socket.on("open", () => resolve(socket));
    socket.on("unexpected-response", async (request, response) => {
      const body = await text(response).catch(() => "");
      request.destroy();
      resolve(refusalError(response.statusCode ?? 0, body));
    });
    // Later errors have no effect on this promise; they close the socket, which ends the stream.
    socket.on("error", (error) =>
      reject(new CliError(`${target.url} cannot be reached: ${describeError(error)}`, EXIT.unreachable)),
    );
  });
}

/**
 * Connects a client and initializes it. Network failures are bridged: the client does not notice them. Updates bypass
 * the SDK, which calls its handlers late, so that the end of a turn could overtake the turn's last update, and which
 * rejects updates that it does not know.
 */
export async function connectAcp(
  target: Target,
  app: ClientApp,
  {
    onUpdate,
    log = () => {},
    capabilities = {},
  }: { onUpdate?: OnUpdate; log?: Log; capabilities?: ClientCapabilities } = {},
): Promise<ClientConnection> {
  // A configuration without a token fails here, before any attempt to connect.
  await target.token();
  const connection = app.connect(linkStream(target, log, onUpdate));
  try {
    await initialize(connection, capabilities);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

export async function initialize(
  { agent }: ClientConnection,
  clientCapabilities: ClientCapabilities = {},
): Promise<InitializeResponse> {
  try {
    return await agent.request("initialize", {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities,
      clientInfo: { name: "acp-edge", version: VERSION },
    });
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    // The agent's id is the only parameter that the user chooses.
    const unknownAgent = error.code === ErrorCode.invalidParams;
    throw new CliError(error.message, unknownAgent ? EXIT.notFound : exitCodeForRpc(error.code));
  }
}

/** A client that ignores all notifications. */
export function quietClient(): ClientApp {
  return client({ name: "acp-edge" }).onNotification("*", () => {});
}

/** The exit code for a JSON-RPC error code. */
export function exitCodeForRpc(code: number): ExitCode {
  if (code === ErrorCode.notFound) return EXIT.notFound;
  return code === ErrorCode.forbidden ? EXIT.unauthorized : EXIT.turn;
}

type OnUpdate = (params: SessionNotification) => void;

/** A message stream over a reconnecting link. When the link gives up, the stream fails with the reason. */
function linkStream(target: Target, log: Log, onUpdate?: OnUpdate): Stream {
  let fail: (error: CliError) => void = () => {};
  let take: (line: string) => void = () => {};
  const { link, ended } = openReconnectingLink({
    url: acpUrl(target),
    token: (fresh) => target.token({ fresh }),
    waitMs: 0,
    heartbeatMs: HEARTBEAT_MS,
    limits: DEFAULT_LIMITS,
    log,
    frames: (lines) => {
      for (const line of lines) take(line);
      return undefined;
    },
    unrestored: (_, reason) => fail(new CliError(reason, EXIT.error)),
  });
  const readable = new ReadableStream<AnyMessage>({
    start(controller) {
      take = (line) => receive(controller, line, onUpdate);
      fail = (error) => controller.error(error);
      void ended.then(fail);
    },
    cancel: () => link.close(),
  });
  const writable = new WritableStream<AnyMessage>({
    write: (message) => link.send([JSON.stringify(message)]),
    close: () => link.close(),
    abort: () => link.close(),
  });
  return { readable, writable };
}

/** A message stream over one socket, one message per text frame. The end of the socket ends both directions. */
export function socketStream(socket: WebSocket): Stream {
  let cancelled = false;
  const readable = new ReadableStream<AnyMessage>({
    start(controller) {
      socket.on("message", (data) => receive(controller, data.toString()));
      socket.on("close", () => {
        if (!cancelled) controller.close();
      });
    },
    cancel: () => {
      cancelled = true;
      socket.close(CloseCode.normal);
    },
  });
  const writable = new WritableStream<AnyMessage>({
    write: (message) =>
      new Promise((resolve, reject) => {
        socket.send(JSON.stringify(message), (error) => (error ? reject(error) : resolve()));
      }),
    close: () => socket.close(CloseCode.normal),
    abort: () => socket.close(CloseCode.normal),
  });
  return { readable, writable };
}

function receive(
  controller: ReadableStreamDefaultController<AnyMessage>,
  text: string,
  onUpdate: OnUpdate = () => {},
): void {
  const message = JSON.parse(text) as AnyMessage;
  if (!("method" in message) || message.method !== "session/update") controller.enqueue(message);
  else if (hasUpdate(message.params)) onUpdate(message.params);
}

function hasUpdate(params: unknown): params is SessionNotification {
  const update = (params as { update?: unknown } | null | undefined)?.update;
  return typeof update === "object" && update !== null;
}
