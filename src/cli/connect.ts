/**
 * A remote agent as a local command: ACP on stdio towards the editor, a link that survives everything towards
 * the gateway. Nothing but ACP goes to stdout; what there is to say goes to stderr.
 */
import { parseArgs } from "node:util";
import { type BridgeEnd, runBridge } from "./connect/bridge.ts";

const USAGE =
  "usage: connect <ws-url> [--token TOKEN] [--wait SECONDS] [--heartbeat SECONDS], or the token in ACP_EDGE_TOKEN";

const EXIT: Record<BridgeEnd["end"], number> = { closed: 0, refused: 1, unauthorized: 3, unreachable: 4 };

function say(message: string): void {
  process.stderr.write(`acp-edge: ${message}\n`);
}

function options(): { url: string; token: string; waitMs: number; heartbeatMs: number } {
  let problem = "";
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: {
        token: { type: "string" },
        wait: { type: "string", default: "15" },
        heartbeat: { type: "string", default: "5" },
      },
    });
    const token = values.token ?? process.env.ACP_EDGE_TOKEN;
    const waitMs = Number(values.wait) * 1000;
    const heartbeatMs = Number(values.heartbeat) * 1000;
    const fit = waitMs >= 0 && heartbeatMs > 0;
    if (positionals[0] !== undefined && positionals.length === 1 && token && fit)
      return { url: positionals[0], token, waitMs, heartbeatMs };
  } catch (error) {
    problem = `${(error as Error).message}\n`;
  }
  say(problem + USAGE);
  process.exit(2);
}

const { url, token, waitMs, heartbeatMs } = options();
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
process.on("SIGINT", () => stop.abort());
process.stderr.on("error", () => {});

const end = await runBridge({
  url,
  token: () => token,
  waitMs,
  heartbeatMs,
  input: process.stdin,
  output: process.stdout,
  log: say,
  signal: stop.signal,
});
if (end.end !== "closed") say(end.reason);
process.stdout.end(() => process.exit(EXIT[end.end]));
