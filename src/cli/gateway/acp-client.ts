import { text } from "node:stream/consumers";
import {
  type AnyMessage,
  type ClientApp,
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
import { openLink } from "../connect/reconnecting-link.ts";
import { CliError, EXIT, type ExitCode, reasonOf } from "../exit.ts";
import { refusal } from "./api-client.ts";
import { acpUrl, type Target } from "./target.ts";

const HANDSHAKE_MS = 15_000;
/** How soon a turn notices that the gateway is gone. */
const HEARTBEAT_MS = 5_000;

/** An open socket for ACP; a refused token is tried once more, fresh. */
export async function openSocket(target: Target): Promise<WebSocket> {
  const first = await dial(target, await target.token());
  const again = first instanceof CliError && first.code === EXIT.unauthorized;
  const outcome = again ? await dial(target, await target.token({ fresh: true })) : first;
  if (outcome instanceof WebSocket) return outcome;
  throw outcome;
}

/** The socket, or why the gateway does not want it. */
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
      resolve(refusal(response.statusCode ?? 0, body));
    });
    // Also hears of what goes wrong later; that ends the stream, which says so.
    socket.on("error", (error) =>
      reject(new CliError(`${target.url} cannot be reached: ${reasonOf(error)}`, EXIT.unreachable)),
    );
  });
}

/**
 * Connects a client and says hello. What it loses of its network it does not notice. Updates go past the SDK: it
 * calls its handlers later, when it may have told of the end of a turn before its last words, and complains of every
 * update it does not know.
 */
export async function connectAcp(
  target: Target,
  app: ClientApp,
  { onUpdate, log = () => {} }: { onUpdate?: OnUpdate; log?: Log } = {},
): Promise<ClientConnection> {
  // What is wrong with the configuration is not to be found out by dialling.
  await target.token();
  const connection = app.connect(linkStream(target, log, onUpdate));
  try {
    await initialize(connection);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

export async function initialize({ agent }: ClientConnection): Promise<InitializeResponse> {
  try {
    return await agent.request("initialize", {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: {},
      clientInfo: { name: "acp-edge", version: VERSION },
    });
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    // Of what we say here only the agent can be wrong.
    const unknownAgent = error.code === ErrorCode.invalidParams;
    throw new CliError(error.message, unknownAgent ? EXIT.notFound : rpcCode(error.code));
  }
}

/** A client that hears nothing of what sessions say. */
export function quietClient(): ClientApp {
  return client({ name: "acp-edge" }).onNotification("*", () => {});
}

/** What an error of the protocol means for the command. */
export function rpcCode(code: number): ExitCode {
  if (code === ErrorCode.notFound) return EXIT.notFound;
  return code === ErrorCode.forbidden ? EXIT.unauthorized : EXIT.turn;
}

type OnUpdate = (params: SessionNotification) => void;

/** Messages over a link that goes on over as many sockets as it takes. Its end is an error that says why. */
function linkStream(target: Target, log: Log, onUpdate?: OnUpdate): Stream {
  let fail: (error: CliError) => void = () => {};
  let take: (line: string) => void = () => {};
  const { link, ended } = openLink({
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

/** One message per text frame. The end of the socket is the end of both streams. */
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
