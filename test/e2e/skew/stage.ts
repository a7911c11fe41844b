/**
 * A gateway in the middle of a deploy: one workerd that has the code of two builds. Each class of objects, the Worker and
 * the host run one build, and an object that starts anew takes the build that its class has by then. Sockets of an
 * evicted object hibernate, so another build may wake with attachments that it has not written.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { applyMigrations } from "../../../src/cli/local/migrations.ts";
import { choosePort, LOCAL_ADDRESS } from "../../../src/cli/local/port.ts";
import { readWorkerConfig, type WorkerConfig } from "../../../src/cli/local/worker-config.ts";
import {
  CLIENT_CLAIMS,
  HOST_CLAIMS,
  LOCAL_WORKSPACE,
  loadSigner,
  type Signer,
} from "../../../src/cli/token-signer.ts";
import type { Reachable } from "../client.ts";
import { eventually } from "../gateway.ts";
import { type Build, hostProgram, RELEASE, workerCode } from "./releases.ts";

const PROJECT = fileURLToPath(new URL("../../../", import.meta.url));
const DEMO_AGENT = join(PROJECT, "src/demo-agent/main.ts");
const WORKER = "acp-edge";
const HOST = "stage";
/** How often an object may be found busy. */
const EVICTIONS = 4;

/** The roles of a gateway that a deploy replaces one after the other. A role without an entry has the new build. */
export type Cast = Readonly<Record<string, Build>>;

/** The classes of the released Worker. A class that came later has one build only. */
export const CLASSES = ["AcpSession", "AcpConnection", "WorkspaceState", "TenantState"] as const;

export function everyRole(build: Build): Cast {
  return Object.fromEntries([...CLASSES, "Worker", "host"].map((role) => [role, build]));
}

export type StageOptions = {
  cast: Cast;
  /** The tables of the index are those of the release, because nobody has deployed since. */
  isBeforeDeploy?: boolean;
  limits?: Record<string, number>;
};

type DurableObjects = Record<string, { className: string; useSQLite?: boolean }>;

export class Stage implements Reachable, AsyncDisposable {
  readonly workspace = LOCAL_WORKSPACE;
  readonly url: string;
  readonly wsUrl: string;
  readonly token: string;
  readonly root: string;
  readonly state: string;
  readonly #port: number;
  readonly #signer: Signer;
  readonly #limits: Record<string, number>;
  #miniflare: Miniflare | undefined;
  #host: ChildProcess | undefined;
  #hostBuild: Build | undefined;
  #log = "";

  private constructor(
    state: string,
    port: number,
    signer: Signer,
    token: string,
    limits: Record<string, number>,
  ) {
    this.url = `http://${LOCAL_ADDRESS}:${port}`;
    this.wsUrl = `ws://${LOCAL_ADDRESS}:${port}/acp`;
    this.token = token;
    this.state = state;
    this.root = state;
    this.#port = port;
    this.#signer = signer;
    this.#limits = limits;
  }

  static async start({ cast, isBeforeDeploy = false, limits = {} }: StageOptions): Promise<Stage> {
    const state = mkdtempSync(join(tmpdir(), "acp-edge-skew-"));
    const signer = await loadSigner(state);
    const token = await signer.sign(CLIENT_CLAIMS, "1 hour");
    const stage = new Stage(state, await choosePort(0), signer, token, limits);
    await stage.serve(cast, isBeforeDeploy);
    await stage.startHost(cast.host ?? "new");
    return stage;
  }

  /** Serves the state with these builds, in place of the gateway before. Clients and hosts lose their sockets. */
  async serve(cast: Cast, isBeforeDeploy = false): Promise<void> {
    await this.#miniflare?.dispose();
    const config = await readWorkerConfig(join(PROJECT, "wrangler.toml"), AbortSignal.timeout(30_000));
    const vars = { jwks: this.#signer.jwks, state: this.state, limits: this.#limits };
    this.#miniflare = new Miniflare(
      convertV4MiniflareOptions({
        host: LOCAL_ADDRESS,
        port: 0,
        log: new Log(LogLevel.NONE),
        handleStructuredLogs: ({ message }) => {
          this.#log += `${message}\n`;
        },
        cf: false,
        resourcePersistencePath: join(this.state, "workerd"),
        workers: [await workerOptions(config, cast, this.#port, vars)],
      }),
    );
    await this.#miniflare.ready;
    const { migrations } = config;
    const released = migrations.filter(({ name }) => RELEASE.migrations.includes(name));
    await applyMigrations(this.#miniflare, isBeforeDeploy ? released : migrations);
  }

  readonly api = (path: string, init?: RequestInit): Promise<Response> =>
    fetch(`${this.url}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${this.token}`, ...init?.headers },
    });

  /** The gateway, as another person reaches it. */
  async as(subject: string): Promise<Reachable> {
    const token = await this.#signer.sign({ ...CLIENT_CLAIMS, sub: subject }, "1 hour");
    const { url, wsUrl, root, api } = this;
    const headers = { authorization: `Bearer ${token}` };
    return { url, wsUrl, root, token, api: (path, init) => api(path, { ...init, headers }) };
  }

  /** Starts the host of a build, and waits until the workspace knows it. */
  async startHost(build: Build): Promise<void> {
    const program = hostProgram(build, join(this.state, "released-host"));
    const args = ["--gateway", this.url, "--workspace", LOCAL_WORKSPACE, "--root", this.root, "--name", HOST];
    args.push("--agent", `${process.execPath} ${DEMO_AGENT}`, "--isolation", "none", "--drain", "0");
    const child = spawn(process.execPath, [program, ...args], {
      env: {
        ...process.env,
        ACP_EDGE_HOST_TOKEN: await this.#signer.sign({ ...HOST_CLAIMS, host: HOST }, "1 hour"),
        ACP_EDGE_HOST_STATE: join(this.state, "hosts"),
        DEMO_AGENT_STATE: join(this.state, "agents"),
      },
      stdio: ["ignore", "ignore", "pipe"],
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#log += text;
    });
    this.#host = child;
    this.#hostBuild = build;
    await eventually(async () => {
      const view = (await (await this.api(`/api/workspaces/${LOCAL_WORKSPACE}`)).json()) as WorkspaceView;
      return view.hosts.some(({ state }) => state === "connected");
    }).catch((error: unknown) => {
      throw new Error(`${error}\n${this.#log}`);
    });
  }

  async stopHost(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const host = this.#host;
    this.#host = undefined;
    if (!host || host.exitCode !== null) return;
    host.kill(signal);
    await once(host, "close");
  }

  /**
   * Gives roles another build, as a deploy or a rollback does. The objects of these classes hibernate first, so each
   * starts anew with its next event.
   */
  async recast(cast: Cast): Promise<void> {
    const answer = await fetch(`${this.url}/stage/cast`, { method: "POST", body: JSON.stringify(cast) });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const { host, ...roles } = cast;
    for (const role of Object.keys(roles)) if (role !== "Worker") await this.#hibernate(role);
    if (host === undefined || host === this.#hostBuild) return;
    await this.stopHost();
    await this.startHost(host);
  }

  /** The objects that have started since the last change of builds, each as its class and its build. */
  async started(): Promise<ReadonlySet<string>> {
    return new Set((await (await fetch(`${this.url}/stage/started`)).json()) as string[]);
  }

  /** The methods that objects of the release have and objects of the sources lack. */
  async removedMethods(): Promise<string[]> {
    return (await (await fetch(`${this.url}/stage/removed`)).json()) as string[];
  }

  async #hibernate(className: string): Promise<void> {
    const miniflare = this.#miniflare as Miniflare;
    const ids = await miniflare.listDurableObjectIds(className, WORKER);
    await Promise.all(ids.map((id) => this.#evict(miniflare, className, id)));
  }

  /** A call that is under way keeps an object awake, so the platform tries again too. */
  async #evict(miniflare: Miniflare, className: string, id: string): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await miniflare.unsafeEvictDurableObject(WORKER, className, { id, webSockets: "hibernate" });
      } catch (error) {
        if (String(error).includes("not currently running")) return;
        if (attempt === EVICTIONS) throw new Error(`${className} ${id}: ${error}`, { cause: error });
      }
    }
  }

  /**
   * Starts everything anew with other builds, over the same state. After a call of a method that the other build lacks,
   * workerd keeps a reference between the two objects and evicts neither of them for minutes, so `recast` fails.
   */
  async restart(cast: Cast): Promise<void> {
    await this.stopHost();
    await this.serve(cast);
    await this.startHost(cast.host ?? "new");
  }

  /** Ends every process. The state stays. */
  async stop(): Promise<void> {
    await this.stopHost();
    await this.#miniflare?.dispose();
    this.#miniflare = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    rmSync(this.state, { recursive: true, force: true });
  }
}

type WorkspaceView = { hosts: { name: string; state: string }[] };

async function workerOptions(
  config: WorkerConfig,
  cast: Cast,
  port: number,
  { jwks, state, limits }: { jwks: string; state: string; limits: Record<string, number> },
) {
  const durableObjects = config.worker.durableObjects as DurableObjects;
  const classes = Object.values(durableObjects).map(({ className }) => className);
  return {
    ...config.worker,
    name: WORKER,
    unsafeDirectSockets: [{ host: LOCAL_ADDRESS, port }],
    r2Buckets: ["ARCHIVE"],
    bindings: {
      ...(config.worker.bindings as Record<string, string>),
      CAST: JSON.stringify(cast),
      AUTH_JWKS: jwks,
      SECRETS_KEY: secretsKey(state),
      LIMITS: JSON.stringify(limits),
      WEBHOOK_TARGETS: "loopback",
    },
    modules: [
      { type: "ESModule" as const, path: "stage.js", contents: stageCode(classes) },
      { type: "ESModule" as const, path: "old.js", contents: await workerCode("old") },
      { type: "ESModule" as const, path: "new.js", contents: await workerCode("new") },
    ],
  };
}

function secretsKey(state: string): string {
  const path = join(state, "secrets-key");
  try {
    writeFileSync(path, randomBytes(32).toString("base64url"), { flag: "wx" });
  } catch {
    // An earlier stage has made the key.
  }
  return readFileSync(path, "utf8");
}

/** The Worker with both builds. A constructor may return another object: that of the build that its class has now. */
function stageCode(classes: readonly string[]): string {
  return `
    import { DurableObject } from "cloudflare:workers";
    import * as old from "./old.js";
    import * as current from "./new.js";
    const builds = { old, new: current };
    const changes = {};
    /** The objects that have started since the last change, as "class build". */
    let started = [];
    const inRole = (role, env) => builds[changes[role] ?? JSON.parse(env.CAST)[role] ?? "new"];
    /** The methods of released objects that the sources lack, as "class.method". */
    const removed = () =>
      Object.keys(old).filter((name) => name !== "default").flatMap((name) =>
        Object.getOwnPropertyNames(old[name].prototype)
          .filter((method) => !(method in (current[name]?.prototype ?? {})))
          .map((method) => name + "." + method));
    const either = (name) => class extends DurableObject {
      constructor(ctx, env) {
        super(ctx, env);
        const build = inRole(name, env);
        started.push(name + " " + (build === old ? "old" : "new"));
        return new build[name](ctx, env);
      }
    };
    ${classes.map((name) => `export const ${name} = either("${name}");`).join("\n")}
    export default {
      async fetch(request, env, ctx) {
        const { pathname } = new URL(request.url);
        if (pathname === "/stage/started") return Response.json(started);
        if (pathname === "/stage/removed") return Response.json(removed());
        if (pathname !== "/stage/cast") return inRole("Worker", env).default.fetch(request, env, ctx);
        Object.assign(changes, await request.json());
        started = [];
        return new Response();
      },
    };`;
}
