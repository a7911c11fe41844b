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

/** Its stdout belongs to the editor: there is no `--json`, for there is nothing else there anyway. */
export function connectCommand(): Command {
  return addGatewayOptions(new Command("connect"))
    .description("A remote agent as a local command: ACP on stdio, for editors and acpx")
    .argument("[url]", "address of the gateway, instead of --url")
    .option("--log <file>", "write messages there instead of to stderr")
    .option("--wait <seconds>", "how long to try a gateway that has never answered", parseSeconds, 15)
    .option("--heartbeat <seconds>", "how soon to notice that the gateway is gone", parseSeconds, 5)
    .action(connect);
}

async function connect(url: string | undefined, options: ConnectOptions): Promise<void> {
  const target = targetOf({ ...options, url: url ?? options.url });
  // What is wrong with the configuration is not to be found out by trying again.
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
  // An editor may hold our stdin open for ever.
  process.stdin.destroy();
  if (interrupted.aborted) process.exitCode = EXIT.interrupted;
  if (end) throw end;
}

function toStderr(event: string): void {
  process.stderr.write(`acp-edge: ${event}\n`);
}

/** A log that cannot be written is no reason to leave the editor without its agent. */
function toFile(path: string): (event: string) => void {
  const file = createWriteStream(path, { flags: "a", mode: 0o600 });
  let writable = true;
  file.on("error", (error) => {
    if (writable) toStderr(`the log cannot be written: ${error.message}`);
    writable = false;
  });
  return (event) => {
    if (writable) file.write(`${new Date().toISOString()} ${event}\n`);
  };
}
