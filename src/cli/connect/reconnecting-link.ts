import type { Loss } from "../../node/gateway-socket.ts";
import { type Log, reasonOf } from "../../node/log.ts";
import { DEFAULT_TIMING, type Timing } from "../../node/timing.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import type { Limits } from "../../protocol/limits.ts";
import { HEARTBEAT_MS } from "../../protocol/resumable-wire.ts";
import { CliError, EXIT } from "../exit.ts";
import { refusal } from "../gateway/api-client.ts";
import { GatewayLink, type LinkHandlers } from "./gateway-link.ts";

export type LinkOptions = {
  /** Where ACP is spoken, with all that is to be said there. */
  url: string;
  /** `fresh`: the last one was refused or is about to expire. */
  token(fresh: boolean): Promise<string>;
  /** How long a gateway that has never answered is tried. One that has is tried for ever. */
  waitMs: number;
  /** The gateway is asked this often whether it is there, and has as long to say so. */
  heartbeatMs: number;
  limits: Limits;
  log: Log;
} & Pick<LinkHandlers, "frames" | "unrestored">;

/** A link that gets itself fresh tokens. It has `ended` with what trying again would not mend. */
export function openLink(options: LinkOptions): { link: GatewayLink; ended: Promise<CliError> } {
  const { log, frames, unrestored } = options;
  const started = Date.now();
  const final = Promise.withResolvers<CliError>();
  /** The token of this socket, and since when it is in use. */
  let token = "";
  let since = 0;
  let online = false;
  let fresh = false;
  let refusals = 0;
  let renewal: NodeJS.Timeout | undefined;

  /** The next socket comes with another token before this one's has expired. */
  const renew = async () => {
    try {
      // Who has but one can only go on with it to its end.
      if ((await options.token(true)) !== token) link.renew();
    } catch (error) {
      log(`no fresh token: ${reasonOf(error)}`);
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
        if (online) log("connected again");
        online = true;
        fresh = false;
        refusals = 0;
        since = Date.now();
      },
      tokenExpires: (at) => {
        clearTimeout(renewal);
        // Should tokens live no longer than the warning is ahead of their end, half of that has to do.
        const half = (at - since) / 2;
        renewal = setTimeout(() => void renew(), Math.max(0, since + half - Date.now()));
        renewal.unref();
      },
      lost: (loss) => {
        clearTimeout(renewal);
        const verdict = judge(loss, { online, patient: Date.now() - started < options.waitMs, refusals });
        fresh = isRefusedToken(loss);
        if (fresh) refusals += 1;
        if (verdict === "retry") return "retry";
        final.resolve(verdict);
        return "give up";
      },
    },
  );
  return { link, ended: final.promise };
}

/** A dead link is noticed within seconds, also after the machine has slept. */
function timing(heartbeatMs: number): Timing {
  return {
    ...DEFAULT_TIMING,
    pingEveryMs: Math.min(heartbeatMs, HEARTBEAT_MS),
    pongWithinMs: heartbeatMs,
    retryMinMs: 100,
    retryMaxMs: 5_000,
  };
}

function isRefusedToken({ code, status }: Loss): boolean {
  return status === 401 || code === CloseCode.unauthorized;
}

/** Whether trying again could help, or why not. */
function judge(
  loss: Loss,
  { online, patient, refusals }: { online: boolean; patient: boolean; refusals: number },
): "retry" | CliError {
  const { code, status, body = "", reason } = loss;
  // Another token may be to be had.
  if (isRefusedToken(loss) && refusals === 0) return "retry";
  if (code === CloseCode.unauthorized)
    return new CliError("the gateway does not accept the token", EXIT.unauthorized);
  if (status !== undefined && status >= 400 && status < 500 && status !== 429 && status !== 408)
    return refusal(status, body);
  if (!online && !patient)
    return new CliError(`the gateway cannot be reached: ${reason || code}`, EXIT.unreachable);
  return "retry";
}
