import { createWriteStream } from "node:fs";
import { Command } from "commander";
import { DEFAULT_LIMITS } from "../../protocol/limits.ts";
import { EXIT } from "../cli-error.ts";
import { runBridge } from "../connect/bridge.ts";
import { acpUrl, type TargetOptions } from "../gateway/target.ts";
import { addGatewayOptions, parseSeconds } from "./command-options.ts";
import { interruptSignal } from "./interrupt-signal.ts";
import { targetOf } from "./resolve.ts";

type ConnectOptions = TargetOptions & { log?: string; wait: number; heartbeat: number };

/** The editor owns stdout, so this command has no `--json`. */
export function connectCommand(): Command {
  return addGatewayOptions(new Command("connect"))
    .description("Run a remote agent as a local command: ACP on stdio, for editors and acpx")
    .argument("[url]", "address of the gateway, instead of --url")
    .option("--log <file>", "write log messages to a file instead of stderr")
    .option("--wait <seconds>", "how long to try a gateway that has never answered", parseSeconds, 15)
    .option("--heartbeat <seconds>", "how soon to notice that the gateway is gone", parseSeconds, 5)
    .action(connect);
}

async function connect(url: string | undefined, options: ConnectOptions): Promise<void> {
  const target = targetOf({ ...options, url: url ?? options.url });
  // A configuration without a token fails here instead of being retried.
  await target.token();
  const interrupted = interruptSignal();
  const end = await runBridge({
    url: acpUrl(target),
    token: (fresh) => target.token({ fresh }),
    waitMs: options.wait * 1000,
    heartbeatMs: options.heartbeat * 1000,
    limits: DEFAULT_LIMITS,
    input: process.stdin,
    output: process.stdout,
    log: options.log === undefined ? toStderr : toFile(options.log),
    signal: interrupted,
  });
  // An editor may keep stdin open forever.
  process.stdin.destroy();
  // Editors end their agents with SIGTERM, which is no failure.
  if (interrupted.reason === "SIGINT") process.exitCode = EXIT.interrupted;
  if (end) throw end;
}

function toStderr(event: string): void {
  process.stderr.write(`acp-edge: ${event}\n`);
}

/** A log file that cannot be written must not end the connection. */
function toFile(path: string): (event: string) => void {
  const file = createWriteStream(path, { flags: "a", mode: 0o600 });
  let writable = true;
  file.on("error", (error) => {
    if (writable) toStderr(`the log file cannot be written: ${error.message}`);
    writable = false;
  });
  return (event) => {
    if (writable) file.write(`${new Date().toISOString()} ${event}\n`);
  };
}
