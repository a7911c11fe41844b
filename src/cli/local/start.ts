/** `npm start`: runs a gateway, a host and an agent on this machine. */
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rememberLocalState } from "../../node/local-states.ts";
import { reasonOf } from "../../node/log.ts";
import { hideKeys } from "../state-keys.ts";
import {
  CLIENT_CLAIMS,
  HOST_CLAIMS,
  LOCAL_WORKSPACE,
  loadHostKey,
  loadSigner,
  type Signer,
} from "../token-signer.ts";
import { LOCAL_HOST, LocalStack } from "./local-stack.ts";
import { choosePort, LOCAL_ADDRESS } from "./port.ts";
import { loadSecretsKey } from "./secrets-key.ts";
import {
  checkVariables,
  parseStartOptions,
  START_HELP,
  type StartOptions,
  UsageError,
  VariableError,
} from "./start-options.ts";
import { type ReadyInfo, startupBanner } from "./startup-banner.ts";
import { lockState } from "./state-lock.ts";
import { enableContainer, waitForAgent, waitForGateway } from "./wait-until-ready.ts";
import { readWorkerConfig } from "./worker-config.ts";

const PROJECT_DIR = fileURLToPath(new URL("../../..", import.meta.url));
const AGENT_WAIT_MS = 15_000;
const SAME_SIGNAL_MS = 500;
const CLIENT_TOKEN_LIFETIME = "30 days";
/** The host gets a single token, so it must outlive the longest run. */
const HOST_TOKEN_LIFETIME = "365 days";

const log = (line: string) => process.stderr.write(`${line}\n`);

async function main(): Promise<void> {
  const options = parseStartOptions(process.argv.slice(2), process.cwd());
  if (options.help) process.stdout.write(START_HELP);
  else {
    checkVariables(process.env);
    await run(options);
  }
}

async function run(options: StartOptions): Promise<void> {
  mkdirSync(options.state, { recursive: true, mode: 0o700 });
  const lock = lockState(options.state);
  remember(options.state);
  hideKeys(options.state, process.env, log);
  const stack = new LocalStack(PROJECT_DIR, log);
  const stopping = new AbortController();
  const stop = async (code = 0) => {
    stopping.abort();
    await stack.stop();
    process.exit(code);
  };
  process.on("exit", () => {
    stack.kill();
    lock.release();
  });
  onSignals(
    () => void stop(),
    () => process.exit(130),
  );
  try {
    const info = await bringUp(stack, options, stopping.signal, (code) => void stop(code));
    const text = options.json
      ? JSON.stringify(info)
      : startupBanner(info, options.root, options.agent ?? options.defaultAgent);
    process.stdout.write(`${text}\n`);
  } catch (error) {
    if (stopping.signal.aborted) return;
    await stack.stop();
    throw error;
  }
}

/** A user whose directory cannot be written has no list of states, so other hosts do not hide this one. */
function remember(state: string): void {
  try {
    rememberLocalState(state, process.env);
  } catch (error) {
    log(`WARNING: other hosts of this user do not hide ${state} from their agents: ${reasonOf(error)}`);
  }
}

async function bringUp(
  stack: LocalStack,
  options: StartOptions,
  signal: AbortSignal,
  onRefused: (exitCode: number) => void,
): Promise<ReadyInfo> {
  const { state: stateDir, root, agent, watch } = options;
  const signer = await loadSigner(stateDir);
  const port = await choosePort(options.port);
  const info = await readyInfo(port, signer);
  const config = await readWorkerConfig(join(PROJECT_DIR, "wrangler.toml"), signal);

  // The state has the logs of sessions, and the keys if they could not be moved.
  const { dev, ino } = statSync(stateDir, { bigint: true });
  // A host that starts later must not take another directory for the state.
  const hidden = ["--hide", stateDir, "--hide-id", `${dev}:${ino}:${stateDir}`];
  const { jwks } = signer;
  const secretsKey = await loadSecretsKey(stateDir);
  const gateway = { projectDir: PROJECT_DIR, stateDir, port, config, jwks, secretsKey, watch };
  if (options.onDemand) {
    const signingKey = JSON.stringify(await loadHostKey(stateDir));
    const hosts = stack.onDemand({ stateDir, root, agent, args: [...options.host, ...hidden] });
    await stack.startGateway({ ...gateway, onDemand: { ...hosts, signingKey } });
    await waitForGateway(info, signal);
    await enableContainer(info, signal);
    return info;
  }
  await stack.startGateway(gateway);
  await waitForGateway(info, signal);

  const { url, workspace } = info;
  const token = await signer.sign({ ...HOST_CLAIMS, host: LOCAL_HOST }, HOST_TOKEN_LIFETIME);
  const hostArgs = [...options.host, ...hidden, "--state", join(options.state, "host")];
  // While sources change, the next change may mend the refusal.
  const end = watch ? {} : { onRefused };
  stack.startHost({ url, token, workspace, root, agent, args: hostArgs, ...end });
  if (watch) stack.watchHostSources();
  const agentReady = await waitForAgent(info, AGENT_WAIT_MS, signal);
  if (!agentReady) log("The gateway is ready, but the agent is not ready yet.");
  return info;
}

async function readyInfo(port: number, signer: Signer): Promise<ReadyInfo> {
  return {
    ready: true,
    url: `http://${LOCAL_ADDRESS}:${port}`,
    wsUrl: `ws://${LOCAL_ADDRESS}:${port}/acp`,
    token: await signer.sign(CLIENT_CLAIMS, CLIENT_TOKEN_LIFETIME),
    hostToken: await signer.sign(HOST_CLAIMS, HOST_TOKEN_LIFETIME),
    workspace: LOCAL_WORKSPACE,
    pid: process.pid,
  };
}

/**
 * The first signal stops the processes, a second one kills them. npm forwards a Ctrl-C that the terminal has already
 * sent to this process, so signals within a moment count as one.
 */
function onSignals(stop: () => void, kill: () => void): void {
  let stoppedAt: number | undefined;
  const onSignal = () => {
    if (stoppedAt === undefined) {
      stoppedAt = Date.now();
      stop();
    } else if (Date.now() - stoppedAt > SAME_SIGNAL_MS) kill();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
}

// The reader of the log may close the pipe first.
process.stderr.on("error", () => {});

main().catch((error: unknown) => {
  const usage = error instanceof UsageError;
  const message = error instanceof Error ? error.message : String(error);
  log(usage ? `${message}\n\n${START_HELP}` : message);
  process.exit(usage || error instanceof VariableError ? 2 : 1);
});
