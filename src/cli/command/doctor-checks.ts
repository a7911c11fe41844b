import { lookup } from "node:dns/promises";
import { connect as connectTcp, isIP } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { type ClientConnection, client, type InitializeResponse, methods } from "@agentclientprotocol/sdk";
import type { WebSocket } from "ws";
import { CloseCode } from "../../protocol/close-codes.ts";
import { CliError, describeError, EXIT, type ExitCode } from "../cli-error.ts";
import { initialize, openSocket, socketStream } from "../gateway/acp-client.ts";
import { ApiClient, type Workspace } from "../gateway/api-client.ts";
import type { Target } from "../gateway/target.ts";
import { claimsOf } from "../gateway/token-source.ts";
import { describeExpiry, tokenTrouble } from "../gateway/token-trouble.ts";
import { brief } from "../text-format.ts";

/** What a step found, and what to do about it. */
export type Check =
  | { status: "ok" | "warning"; detail: string; hint?: string }
  | { status: "failed"; detail: string; hint?: string; code: ExitCode };

export type Step = { name: string } & (Check | { status: "skipped"; detail: ""; hint?: undefined });

const PATIENCE_MS = 5_000;
/** A host may have to start the agent first. */
const AGENT_MS = 60_000;

/** Goes the way from here to the agent, one step after the other, each with what the ones before it found. */
export class Doctor {
  readonly #resolve: () => Target;
  readonly #prompt: string | undefined;
  #target!: Target;
  #token = "";
  #clockAheadMs = 0;
  #workspaceId = "";
  #workspace!: Workspace;
  #socket: WebSocket | undefined;
  #connection: ClientConnection | undefined;

  constructor(resolve: () => Target, prompt: string | undefined) {
    this.#resolve = resolve;
    this.#prompt = prompt;
  }

  /** After the first failure the rest is skipped: it would only fail for the same reason. */
  async *steps(): AsyncGenerator<Step> {
    let failed = false;
    const all: [string, () => Promise<Check> | Check][] = [
      ["configuration", () => this.#configuration()],
      ["name", () => this.#name()],
      ["connection", () => this.#reach()],
      ["gateway", () => this.#health()],
      ["token", () => this.#accepted()],
      ["workspace", () => this.#known()],
      ["host", () => this.#host()],
      ["agent", () => this.#agent()],
      ["websocket", () => this.#upgrade()],
      ["initialize", () => this.#initialize()],
      ...(this.#prompt === undefined ? [] : [["turn", () => this.#turn()] as [string, () => Promise<Check>]]),
    ];
    try {
      for (const [name, check] of all) {
        if (failed) {
          yield { name, status: "skipped", detail: "" };
          continue;
        }
        const found = await attempt(check);
        failed = found.status === "failed";
        yield { name, ...found };
      }
    } finally {
      this.#connection?.close();
      this.#socket?.close(CloseCode.normal);
    }
  }

  #configuration(): Check {
    this.#target = this.#resolve();
    const { url, origin } = this.#target;
    const detail = `${url} from ${origin.url}, ${origin.token === "nowhere" ? "no token" : origin.token}`;
    if (origin.token === "nowhere")
      return fail(detail, EXIT.unauthorized, "Store a token with `acp-edge login`, or set ACP_EDGE_TOKEN.");
    if (url.startsWith("http:") && !isLoopback(new URL(url).hostname))
      return {
        status: "warning",
        detail,
        hint: "This address is not encrypted: everyone on the way can read the token. Use https.",
      };
    return { status: "ok", detail };
  }

  async #name(): Promise<Check> {
    const { hostname } = new URL(this.#target.url);
    const name = hostname.replace(/^\[|\]$/g, "");
    try {
      const addresses = await lookup(name, { all: true });
      return { status: "ok", detail: `${name} is ${addresses.map(({ address }) => address).join(", ")}` };
    } catch (error) {
      return fail(
        `${name} has no address (${(error as NodeJS.ErrnoException).code})`,
        EXIT.unreachable,
        "Is the name spelled right, and is this machine online?",
      );
    }
  }

  async #reach(): Promise<Check> {
    const { protocol, hostname, port } = new URL(this.#target.url);
    const secure = protocol === "https:";
    const address = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (secure ? 443 : 80)) };
    try {
      const detail = await dial(address, secure);
      return { status: "ok", detail };
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? "";
      return fail(describeError(error), EXIT.unreachable, connectHint(code, address.port));
    }
  }

  async #health(): Promise<Check> {
    const { url } = this.#target;
    const hint = "Something answers at this address, but it is no acp-edge gateway, or one that is not well.";
    try {
      const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!response.ok) return fail(`/healthz answers HTTP ${response.status}`, EXIT.unreachable, hint);
      const served = Date.parse(response.headers.get("date") ?? "");
      if (!Number.isNaN(served)) this.#clockAheadMs = Date.now() - served;
      return { status: "ok", detail: "/healthz answers" };
    } catch (error) {
      return fail(`/healthz does not answer: ${describeError(error)}`, EXIT.unreachable, hint);
    }
  }

  async #accepted(): Promise<Check> {
    this.#token = await this.#target.token();
    try {
      await this.#api.sessions(1);
    } catch (error) {
      if (!(error instanceof CliError) || error.code !== EXIT.unauthorized) throw error;
      const trouble = tokenTrouble(this.#token, this.#clockAheadMs);
      return fail(error.message, EXIT.unauthorized, trouble);
    }
    return { status: "ok", detail: `accepted${describeExpiry(this.#token)}` };
  }

  async #known(): Promise<Check> {
    const claimed = claimsOf(this.#token)?.workspaces;
    const names = Array.isArray(claimed) ? claimed.map(String) : [];
    const id = this.#target.workspace ?? names.find((name) => name !== "*");
    if (id === undefined)
      return fail(
        "the token is for any workspace",
        EXIT.usage,
        "Say which: --workspace or ACP_EDGE_WORKSPACE.",
      );
    this.#workspaceId = id;
    try {
      this.#workspace = await this.#api.workspace(id);
    } catch (error) {
      if (!(error instanceof CliError) || error.code !== EXIT.notFound) throw error;
      return fail(`the token is not for ${id}`, EXIT.notFound, `It is for: ${names.join(", ") || "none"}.`);
    }
    return { status: "ok", detail: id };
  }

  #host(): Check {
    const { hosts, containerState } = this.#workspace;
    const here = hosts.filter(({ state }) => state !== "gone");
    if (here.length > 0)
      return {
        status: "ok",
        detail: here.map(({ name, root }) => `${brief(name)} serves ${root}`).join(", "),
      };
    if (containerState?.failures)
      return fail(
        `the container does not start: ${brief(containerState.reason ?? "", 300)}`,
        EXIT.error,
        "What it said itself is in the log of the deployment.",
      );
    if (containerState) return { status: "ok", detail: "a container is started when a session needs it" };
    return fail(
      `no host is connected for ${this.#workspaceId}`,
      EXIT.error,
      `Start one where the files are: acp-edge host --gateway ${this.#target.url} --workspace ${this.#workspaceId} --root DIR`,
    );
  }

  #agent(): Check {
    const { agents, containerState } = this.#workspace;
    const wanted = this.#target.agent;
    if (agents.length === 0 && containerState)
      return { status: "ok", detail: "known when the container has been started once" };
    const agent = agents.find(({ id, default: isDefault }) =>
      wanted === undefined ? isDefault : id === wanted,
    );
    const known = agents.map(({ id }) => id).join(", ") || "none";
    if (!agent)
      return fail(
        wanted === undefined ? "there is no default agent" : `there is no agent ${wanted}`,
        EXIT.notFound,
        `The hosts offer: ${known}.`,
      );
    if (agent.error)
      return fail(
        `${agent.id} does not start: ${brief(agent.error, 300)}`,
        EXIT.error,
        "Try its command by hand on the host; is it installed, and does it have its key?",
      );
    const detail = `${agent.id}${agent.default ? ", the default" : ""}${agent.ready ? "" : ", not started yet"}`;
    return { status: "ok", detail };
  }

  async #upgrade(): Promise<Check> {
    try {
      this.#socket = await openSocket({ ...this.#target, workspace: this.#workspaceId });
      return { status: "ok", detail: "/acp accepts it" };
    } catch (error) {
      const hint = "If plain requests work and this does not, a proxy on the way may not pass WebSockets on.";
      return fail(describeError(error), error instanceof CliError ? error.code : EXIT.unreachable, hint);
    }
  }

  async #initialize(): Promise<Check> {
    const app = client({ name: "acp-edge doctor" })
      .onNotification("*", () => {})
      .onRequest(methods.client.session.requestPermission, () => ({
        outcome: { outcome: "cancelled" as const },
      }));
    this.#connection = app.connect(socketStream(this.#socket as WebSocket));
    const { agentInfo } = await inTime<InitializeResponse>(initialize(this.#connection));
    const name = agentInfo
      ? `${brief(agentInfo.title ?? agentInfo.name)} ${brief(agentInfo.version)}`
      : "the agent";
    return { status: "ok", detail: `${name} answers` };
  }

  /** In a session of its own that is gone afterwards. */
  async #turn(): Promise<Check> {
    const { agent } = this.#connection as ClientConnection;
    const begun = Date.now();
    const { sessionId } = await agent.request(methods.agent.session.new, { cwd: "/", mcpServers: [] });
    try {
      const { stopReason } = await agent.request(methods.agent.session.prompt, {
        sessionId,
        prompt: [{ type: "text", text: this.#prompt as string }],
      });
      const detail = `${brief(stopReason)} after ${((Date.now() - begun) / 1000).toFixed(1)} s`;
      return stopReason === "end_turn" ? { status: "ok", detail } : fail(detail, EXIT.turn);
    } catch (error) {
      return fail(
        `the turn failed: ${brief(describeError(error), 300)}`,
        EXIT.turn,
        "`acp-edge sessions ls` has more.",
      );
    } finally {
      await agent.request(methods.agent.session.delete, { sessionId }).catch(() => {});
    }
  }

  get #api(): ApiClient {
    return new ApiClient(this.#target);
  }
}

function fail(detail: string, code: ExitCode, hint?: string): Check {
  return { status: "failed", detail, code, ...(hint !== undefined && { hint }) };
}

async function attempt(check: () => Promise<Check> | Check): Promise<Check> {
  try {
    return await check();
  } catch (error) {
    return fail(brief(describeError(error), 300), error instanceof CliError ? error.code : EXIT.error);
  }
}

/** Says how it got through. A peer that lets us in and then keeps silent speaks something else than TLS. */
function dial(address: { host: string; port: number }, secure: boolean): Promise<string> {
  const { host, port } = address;
  return new Promise((resolve, reject) => {
    const name = isIP(host) === 0 ? { servername: host } : {};
    const socket = secure ? connectTls({ ...address, ...name }) : connectTcp(address);
    let silence = "ETIMEDOUT";
    socket.setTimeout(PATIENCE_MS);
    socket.on("connect", () => {
      silence = "EPROTO";
      if (!secure) finish(`port ${port}`);
    });
    socket.on("secureConnect", () => finish(`port ${port}, ${(socket as TLSSocket).getProtocol()}`));
    socket.on("timeout", () =>
      socket.destroy(Object.assign(new Error("no answer in time"), { code: silence })),
    );
    socket.on("error", reject);
    function finish(detail: string) {
      socket.destroy();
      resolve(detail);
    }
  });
}

function connectHint(code: string, port: number): string {
  if (code === "ECONNREFUSED")
    return `Nothing listens on port ${port} there. Is the gateway running, is the port right?`;
  if (code === "ETIMEDOUT" || code === "EHOSTUNREACH" || code === "ENETUNREACH")
    return "The machine does not answer: a firewall, a VPN that is off, or no network.";
  if (code === "CERT_HAS_EXPIRED") return "Its certificate has expired, or the clock here is wrong.";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return "Its certificate is for another name: is the address right?";
  if (/SELF_SIGNED|UNABLE_TO|ISSUER/.test(code))
    return "Its certificate is from an authority this machine does not know: name it with NODE_EXTRA_CA_CERTS.";
  if (/SSL|TLS|EPROTO/.test(code)) return "It does not speak TLS on this port: is it http rather than https?";
  return "Is the address right, and the gateway running?";
}

function inTime<T>(promise: Promise<T>): Promise<T> {
  return Promise.race([
    promise,
    new Promise<never>((_, reject) => {
      setTimeout(() => reject(new Error("the agent does not answer in time")), AGENT_MS).unref();
    }),
  ]);
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127.");
}
