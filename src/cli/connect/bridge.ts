import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Loss } from "../../host/gateway-socket.ts";
import { type Line, LineSplitter } from "../../host/line-splitter.ts";
import { type Log, reasonOf } from "../../host/log.ts";
import { TIMING, type Timing } from "../../host/timing.ts";
import { GatewayLink } from "./gateway-link.ts";
import { Pending } from "./pending.ts";

/** A dead link is noticed within seconds, also after the machine has slept. */
function timing(heartbeatMs: number): Timing {
  return {
    ...TIMING,
    pingEveryMs: heartbeatMs,
    pongWithinMs: heartbeatMs,
    retryMinMs: 100,
    retryMaxMs: 5_000,
  };
}

/** How long the last words of an editor may take. */
const GOODBYE_MS = 5_000;

export type BridgeOptions = {
  /** Where ACP is spoken, with all that is to be said there. */
  url: string;
  /** `fresh`: the last one was refused or is about to expire. */
  token(fresh: boolean): string | Promise<string>;
  /** How long a gateway that has never answered is tried. One that has is tried for ever. */
  waitMs: number;
  /** The gateway is asked this often whether it is there, and has as long to say so. */
  heartbeatMs: number;
  input: Readable;
  output: Writable;
  log: Log;
  signal?: AbortSignal;
};

/** Why the bridge ended: the editor left, or something that trying again would not mend. */
export type BridgeEnd =
  | { end: "closed" }
  | { end: "unauthorized" | "unreachable" | "refused"; reason: string };

/** A remote agent as a local one: ACP on two pipes towards the editor, a resumable link towards the gateway. */
export async function runBridge(options: BridgeOptions): Promise<BridgeEnd> {
  const { input, output, log } = options;
  const pending = new Pending();
  const splitter = new LineSplitter();
  const started = Date.now();
  const final = Promise.withResolvers<BridgeEnd>();
  let online = false;
  let fresh = false;
  let refusals = 0;
  /** The editor does not read as fast as the agent writes. */
  let room: Promise<void> | undefined;

  const link = new GatewayLink(
    {
      url: options.url,
      token: () => options.token(fresh),
      timing: timing(options.heartbeatMs),
      log,
    },
    "",
    {
      frames: (lines) => {
        for (const line of lines) pending.answered(line);
        if (output.write(`${lines.join("\n")}\n`)) return undefined;
        room ??= once(output, "drain").then(() => {
          room = undefined;
        });
        return room;
      },
      connected: () => {
        if (online) log("connected again");
        online = true;
        fresh = false;
        refusals = 0;
      },
      lost: (loss) => {
        const verdict = judge(loss, { online, patient: Date.now() - started < options.waitMs, refusals });
        fresh = loss.status === 401 || loss.code === 4401;
        if (fresh) refusals += 1;
        if (verdict === "retry") return "retry";
        final.resolve(verdict);
        return "give up";
      },
    },
  );

  const forward = async (lines: Line[]) => {
    const frames = lines.filter((line): line is string => typeof line === "string" && line.trim() !== "");
    for (const line of lines) if (typeof line !== "string") log(`not sent: ${line.noise.slice(0, 200)}`);
    for (const line of frames) pending.asked(line);
    await link.send(frames);
  };

  const reading = (async (): Promise<BridgeEnd> => {
    for await (const chunk of input) await forward(splitter.push(chunk as Buffer));
    await forward(splitter.end());
    await Promise.race([link.drained(), sleep(GOODBYE_MS, undefined, { ref: false })]);
    return { end: "closed" };
  })();
  const aborted = new Promise<BridgeEnd>((resolve) =>
    options.signal?.addEventListener("abort", () => resolve({ end: "closed" })),
  );
  output.on("error", () => final.resolve({ end: "closed" }));

  const end = await Promise.race([final.promise, reading, aborted]).catch(
    (error: unknown): BridgeEnd => ({ end: "refused", reason: reasonOf(error) }),
  );
  if (end.end !== "closed") {
    const answers = pending.fail(`acp-edge: ${end.reason}`);
    if (answers.length > 0) output.write(`${answers.join("\n")}\n`);
  }
  link.close();
  return end;
}

/** Whether trying again could help. */
function judge(
  { code, status, reason }: Loss,
  { online, patient, refusals }: { online: boolean; patient: boolean; refusals: number },
): "retry" | BridgeEnd {
  if (status === 401 || code === 4401) {
    // Another token may be to be had.
    return refusals === 0
      ? "retry"
      : { end: "unauthorized", reason: "the gateway does not accept the token" };
  }
  if (status === 403) return { end: "unauthorized", reason: "the token does not allow this" };
  if (status === 404) return { end: "refused", reason: "there is no such workspace, or no gateway there" };
  if (status !== undefined && status >= 400 && status < 500 && status !== 429 && status !== 408)
    return { end: "refused", reason: `the gateway refused the connection: HTTP ${status}` };
  if (!online && !patient)
    return { end: "unreachable", reason: `the gateway cannot be reached: ${reason || code}` };
  return "retry";
}
