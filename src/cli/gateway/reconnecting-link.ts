import type { Loss } from "../../node/gateway-socket.ts";
import { type Log, reasonOf } from "../../node/log.ts";
import { DEFAULT_TIMING, readTiming, type Timing } from "../../node/timing.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import type { Limits } from "../../protocol/limits.ts";
import { HEARTBEAT_MS } from "../../protocol/resumable-wire.ts";
import { CliError, EXIT } from "../cli-error.ts";
import { GatewayLink, type LinkHandlers } from "./gateway-link.ts";
import { refusalError } from "./refusal-error.ts";

export type ReconnectingLinkOptions = {
  /** The address of the ACP WebSocket, query included. */
  url: string;
  /** Returns the token. `fresh` asks for a new one, because the last was refused or is about to expire. */
  token(fresh: boolean): Promise<string>;
  /** How long to try a gateway that has never answered. A gateway that has answered once is retried forever. */
  waitMs: number;
  /** The interval between heartbeats, and the time that the gateway has to answer one. */
  heartbeatMs: number;
  limits: Limits;
  log: Log;
} & Pick<LinkHandlers, "frames" | "unrestored">;

/** Opens a link that reconnects and renews its token. `ended` resolves with an error that retrying cannot solve. */
export function openReconnectingLink(options: ReconnectingLinkOptions): {
  link: GatewayLink;
  ended: Promise<CliError>;
} {
  const { log, frames, unrestored } = options;
  const started = Date.now();
  const ended = Promise.withResolvers<CliError>();
  /** The token of the current socket, and when that socket was connected. */
  let token = "";
  let since = 0;
  let online = false;
  let fresh = false;
  let refusals = 0;
  let renewal: NodeJS.Timeout | undefined;

  /** Replaces the socket by one with a fresh token before the current token expires. */
  const renew = async () => {
    try {
      // Without another token the link keeps its socket until the token expires.
      if ((await options.token(true)) !== token) link.renew();
    } catch (error) {
      log(`the token cannot be renewed: ${reasonOf(error)}`);
    }
  };

  const link = new GatewayLink(
    {
      url: options.url,
      token: async () => {
        token = await options.token(fresh);
        return token;
      },
      timing: timing(options.heartbeatMs),
      limits: options.limits,
      log,
    },
    "",
    {
      frames,
      unrestored,
      connected: () => {
        if (online) log("reconnected");
        online = true;
        fresh = false;
        refusals = 0;
        since = Date.now();
      },
      tokenExpires: (at) => {
        clearTimeout(renewal);
        // The warning may come as soon as a short-lived token is used, so renew after half of the remaining time.
        const half = (at - since) / 2;
        renewal = setTimeout(() => void renew(), Math.max(0, since + half - Date.now()));
        renewal.unref();
      },
      lost: (loss) => {
        clearTimeout(renewal);
        const waiting = Date.now() - started < options.waitMs;
        const error = permanentError(loss, { online, waiting, refusals });
        fresh = isRefusedToken(loss);
        if (fresh) refusals += 1;
        if (error === undefined) return "retry";
        ended.resolve(error);
        return "give up";
      },
    },
  );
  return { link, ended: ended.promise };
}

/** A dead link is noticed within seconds, even after the machine was suspended. */
function timing(heartbeatMs: number): Timing {
  return readTiming(process.env.ACP_EDGE_TIMING, {
    ...DEFAULT_TIMING,
    pingEveryMs: Math.min(heartbeatMs, HEARTBEAT_MS),
    pongWithinMs: heartbeatMs,
    retryMinMs: 100,
    retryMaxMs: 5_000,
  });
}

function isRefusedToken({ code, status }: Loss): boolean {
  return status === 401 || code === CloseCode.unauthorized;
}

/** Why retrying cannot help; undefined if it may. */
function permanentError(
  loss: Loss,
  { online, waiting, refusals }: { online: boolean; waiting: boolean; refusals: number },
): CliError | undefined {
  const { code, status, body = "", reason } = loss;
  // The token source may have another token.
  if (isRefusedToken(loss) && refusals === 0) return undefined;
  if (code === CloseCode.unauthorized)
    return new CliError("the gateway does not accept the token", EXIT.unauthorized);
  if (status !== undefined && status >= 400 && status < 500 && status !== 429 && status !== 408)
    return refusalError(status, body);
  if (!online && !waiting)
    return new CliError(`the gateway cannot be reached: ${reason || code}`, EXIT.unreachable);
  return undefined;
}
