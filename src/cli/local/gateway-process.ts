/**
 * The gateway process: runs the bundled Worker on workerd, in a process group of its own. The runner can therefore
 * end workerd reliably, and this process notices a dead runner by the closed channel.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { LocalContainers, type LocalContainersOptions } from "./local-containers.ts";
import { guardServers } from "./loopback-guard.ts";
import { applyMigrations } from "./migrations.ts";
import { LOCAL_ADDRESS, portInUse } from "./port.ts";
import { bundleWorker, watchWorker } from "./worker-bundle.ts";
import type { WorkerConfig } from "./worker-config.ts";

/** The first message from the runner. */
export type GatewayProcessOptions = {
  projectDir: string;
  stateDir: string;
  port: number;
  config: WorkerConfig;
  /** Public keys that may sign tokens, a JSON Web Key Set. */
  jwks: string;
  /** Encrypts the secrets of workspaces. */
  secretsKey: string;
  watch: boolean;
  /** Starts hosts when sessions need them, in place of containers. */
  onDemand?: LocalContainersOptions & { signingKey: string };
};

/** The answer to the runner. */
export type GatewayReport = { t: "ready" } | { t: "failed"; reason: string };

/** Miniflare restarts a dead workerd immediately. After more restarts than this, the runner's backoff takes over. */
const RESTARTS = { count: 3, withinMs: 30_000 };

/** Miniflare needs this long at most to notice a dead workerd and to have the next one ready. */
const WORKERD_RESTART_MS = 5_000;

class GatewayLog extends Log {
  override error(error: Error): void {
    super.error(error);
    // Miniflare reports this error when it gives up restarting workerd.
    if (errorCode(error) === "ERR_RUNTIME_FAILURE") process.exit(1);
  }
}

/** Known to this process and its Worker only. */
const loopbackSecret = randomBytes(32).toString("base64url");
guardServers(loopbackSecret);

let containers: LocalContainers | undefined;

/** The additions of the environment `containers` in wrangler.toml, with processes instead of containers. */
function onDemandOptions({ config, port, onDemand }: GatewayProcessOptions) {
  if (!onDemand) return { bindings: {}, more: {} };
  containers ??= new LocalContainers(onDemand, loopbackSecret);
  const { durableObjects } = config.worker;
  return {
    bindings: {
      PUBLIC_URL: `http://${LOCAL_ADDRESS}:${port}`,
      HOST_SIGNING_KEY: onDemand.signingKey,
      LOOPBACK_SECRET: loopbackSecret,
    },
    more: {
      durableObjects: {
        ...(durableObjects as object),
        AGENT_CONTAINER: { className: "AgentContainer", useSQLite: true },
      },
      serviceBindings: { LOCAL_CONTAINERS: containers.fetch },
    },
  };
}

function entryOf({ onDemand }: GatewayProcessOptions): string {
  return onDemand ? "src/container/local/worker.ts" : "src/worker.ts";
}

function miniflareOptions(options: GatewayProcessOptions, code: string) {
  const { port, stateDir, config, jwks, secretsKey } = options;
  const { bindings, more } = onDemandOptions(options);
  return convertV4MiniflareOptions({
    // Miniflare's own port stays unused, because it would proxy every message.
    host: LOCAL_ADDRESS,
    port: 0,
    log: new GatewayLog(LogLevel.WARN),
    logRequests: false,
    handleStructuredLogs: ({ message }) => console.error(message),
    unsafeHandleRuntimeRestart: onWorkerdRestart,
    // Otherwise Miniflare asks the internet for the location of this machine.
    cf: false,
    resourcePersistencePath: join(stateDir, "workerd"),
    workers: [
      {
        ...config.worker,
        ...more,
        name: config.name,
        unsafeDirectSockets: [{ host: LOCAL_ADDRESS, port }],
        bindings: {
          ...(config.worker.bindings as Record<string, string>),
          ...bindings,
          AUTH_JWKS: jwks,
          AUTH_ISSUERS: process.env.ACP_EDGE_AUTH_ISSUERS ?? "",
          SECRETS_KEY: secretsKey,
          LIMITS: process.env.ACP_EDGE_LIMITS ?? "",
          // The gateway itself can only be reached from this machine.
          WEBHOOK_TARGETS: process.env.ACP_EDGE_WEBHOOK_TARGETS ?? "loopback",
        },
        modules: [{ type: "ESModule", path: "worker.js", contents: code }],
      },
    ],
  });
}

const restarts: number[] = [];

function onWorkerdRestart(): void {
  console.error("workerd died and was restarted");
  restarts.push(Date.now());
  const recent = restarts.filter((at) => at > Date.now() - RESTARTS.withinMs);
  if (recent.length > RESTARTS.count) process.exit(1);
}

async function serve(options: GatewayProcessOptions, code: string): Promise<Miniflare> {
  const miniflare = new Miniflare(miniflareOptions(options, code));
  endWith(miniflare);
  await miniflare.ready;
  await migrate(miniflare, options);
  return miniflare;
}

/** A workerd that dies meanwhile is restarted by Miniflare, and the migrations go on where they stopped. */
async function migrate(miniflare: Miniflare, options: GatewayProcessOptions): Promise<void> {
  for (;;) {
    const before = restarts.length;
    try {
      return await applyMigrations(miniflare, options.config.migrations);
    } catch (error) {
      if (!(await within(WORKERD_RESTART_MS, () => restarts.length > before))) throw error;
    }
  }
}

async function within(ms: number, isTrue: () => boolean): Promise<boolean> {
  for (let waited = 0; waited < ms && !isTrue(); waited += 20) await setTimeout(20);
  return isTrue();
}

/** Serves the first successful build, and replaces it with each later one. */
async function serveAndReload(options: GatewayProcessOptions): Promise<void> {
  const first = Promise.withResolvers<void>();
  let current: Promise<Miniflare> | undefined;
  const onBuild = async (code: string) => {
    if (!current) {
      current = serve(options, code);
      current.then(() => first.resolve(), first.reject);
      return;
    }
    const miniflare = await current;
    await miniflare.setOptions(miniflareOptions(options, code));
    console.error("worker reloaded");
  };
  await watchWorker(options.projectDir, entryOf(options), onBuild, (message) => console.error(message));
  return first.promise;
}

/** Replaces Miniflare's own handler for SIGTERM, which exits before workerd has ended. */
function endWith(miniflare: Miniflare): void {
  const end = async () => {
    // Hosts end first, while the gateway can still record their last messages.
    await containers?.close();
    await miniflare.dispose().finally(() => process.exit(0));
  };
  process.removeAllListeners("SIGTERM").once("SIGTERM", end);
  process.removeAllListeners("disconnect").once("disconnect", end);
}

function errorCode(error: unknown): string | undefined {
  return (error as { code?: string }).code;
}

function report(message: GatewayReport): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()));
}

async function main(): Promise<void> {
  process.once("disconnect", () => process.exit(1));
  const [options] = (await once(process, "message")) as [GatewayProcessOptions];
  try {
    if (options.watch) await serveAndReload(options);
    else await serve(options, await bundleWorker(options.projectDir, entryOf(options)));
    await report({ t: "ready" });
  } catch (error) {
    const inUse = errorCode(error) === "ERR_ADDRESS_IN_USE";
    const reason = inUse ? portInUse(options.port) : error instanceof Error ? error.message : String(error);
    await report({ t: "failed", reason });
    process.exit(1);
  }
}

await main();
