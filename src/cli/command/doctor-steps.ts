import { type ClientConnection, client, type InitializeResponse, methods } from "@agentclientprotocol/sdk";
import type { WebSocket } from "ws";
import { CloseCode } from "../../protocol/close-codes.ts";
import type { WorkspaceView } from "../../protocol/rest.ts";
import { isSecureUrl } from "../../protocol/secure-url.ts";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import { initialize, openSocket, socketStream } from "../gateway/acp-client.ts";
import { ApiClient } from "../gateway/api-client.ts";
import type { Target } from "../gateway/target.ts";
import { claimsOf } from "../gateway/token-source.ts";
import { describeExpiry, tokenTrouble } from "../gateway/token-trouble.ts";
import { brief } from "../text-format.ts";
import { type Check, failedCheck } from "./doctor-check.ts";
import { checkConnection, checkName, NETWORK_TIMEOUT_MS } from "./doctor-network.ts";
import { checkAgent, checkHost } from "./doctor-workspace.ts";

/** A named step of `doctor`. Steps after a failure are skipped. */
export type Step = { name: string } & (Check | { status: "skipped"; detail: ""; hint?: undefined });

/** How long an agent may take to answer, because its host may have to start it first. */
const AGENT_TIMEOUT_MS = 60_000;

/** Checks each step between this machine and the agent. A step uses the findings of the steps before it. */
export class Doctor {
  readonly #resolve: () => Target;
  readonly #prompt: string | undefined;
  #target!: Target;
  #token = "";
  #clockAheadMs = 0;
  #workspaceId = "";
  #workspace!: WorkspaceView;
  #socket: WebSocket | undefined;
  #connection: ClientConnection | undefined;

  constructor(resolve: () => Target, prompt: string | undefined) {
    this.#resolve = resolve;
    this.#prompt = prompt;
  }

  /** Skips the steps after a failure, because they would fail for the same reason. */
  async *steps(): AsyncGenerator<Step> {
    let failed = false;
    const all: [string, () => Promise<Check> | Check][] = [
      ["configuration", () => this.#checkConfiguration()],
      ["name", () => checkName(this.#target.url)],
      ["connection", () => checkConnection(this.#target.url)],
      ["gateway", () => this.#checkHealth()],
      ["token", () => this.#checkToken()],
      ["workspace", () => this.#checkWorkspace()],
      ["host", () => checkHost(this.#workspace, this.#target, this.#workspaceId)],
      ["agent", () => checkAgent(this.#workspace, this.#target.agent)],
      ["websocket", () => this.#checkWebSocket()],
      ["initialize", () => this.#checkInitialize()],
      ...(this.#prompt === undefined
        ? []
        : [["turn", () => this.#checkTurn()] as [string, () => Promise<Check>]]),
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

  #checkConfiguration(): Check {
    this.#target = this.#resolve();
    const { url, origin } = this.#target;
    const detail = `${url} from ${origin.url}, ${origin.token === "nowhere" ? "no token" : origin.token}`;
    if (origin.token === "nowhere")
      return failedCheck(
        detail,
        EXIT.unauthorized,
        "Store a token with `acp-edge login`, or set ACP_EDGE_TOKEN.",
      );
    if (!isSecureUrl(url))
      return {
        status: "warning",
        detail,
        hint: "The connection is not encrypted, so anyone on the way can read the token. Use https.",
      };
    return { status: "ok", detail };
  }

  async #checkHealth(): Promise<Check> {
    const { url } = this.#target;
    const hint = "A server answers at this address, but it is not an acp-edge gateway, or it is not healthy.";
    try {
      const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(NETWORK_TIMEOUT_MS) });
      if (!response.ok)
        return failedCheck(`/healthz answers HTTP ${response.status}`, EXIT.unreachable, hint);
      const served = Date.parse(response.headers.get("date") ?? "");
      if (!Number.isNaN(served)) this.#clockAheadMs = Date.now() - served;
      return { status: "ok", detail: "/healthz answers" };
    } catch (error) {
      return failedCheck(`/healthz does not answer: ${describeError(error)}`, EXIT.unreachable, hint);
    }
  }

  async #checkToken(): Promise<Check> {
    this.#token = await this.#target.token();
    try {
      await this.#api.sessions(1);
    } catch (error) {
      if (!(error instanceof CliError) || error.code !== EXIT.unauthorized) throw error;
      const trouble = tokenTrouble(this.#token, this.#clockAheadMs);
      return failedCheck(error.message, EXIT.unauthorized, trouble);
    }
    return { status: "ok", detail: `accepted${describeExpiry(this.#token)}` };
  }

  async #checkWorkspace(): Promise<Check> {
    const claimed = claimsOf(this.#token)?.workspaces;
    const names = Array.isArray(claimed) ? claimed.map(String) : [];
    const id = this.#target.workspace ?? names.find((name) => name !== "*");
    if (id === undefined)
      return failedCheck(
        "the token allows every workspace",
        EXIT.usage,
        "Choose one with --workspace or ACP_EDGE_WORKSPACE.",
      );
    this.#workspaceId = id;
    try {
      this.#workspace = await this.#api.workspace(id);
    } catch (error) {
      if (!(error instanceof CliError) || error.code !== EXIT.notFound) throw error;
      return failedCheck(
        `the token does not allow ${id}`,
        EXIT.notFound,
        `It allows: ${names.join(", ") || "none"}.`,
      );
    }
    return { status: "ok", detail: id };
  }

  async #checkWebSocket(): Promise<Check> {
    try {
      this.#socket = await openSocket({ ...this.#target, workspace: this.#workspaceId });
      return { status: "ok", detail: "/acp accepts WebSockets" };
    } catch (error) {
      const hint = "Plain requests work, so a proxy on the way may not support WebSockets.";
      return failedCheck(
        describeError(error),
        error instanceof CliError ? error.code : EXIT.unreachable,
        hint,
      );
    }
  }

  async #checkInitialize(): Promise<Check> {
    const app = client({ name: "acp-edge doctor" })
      .onNotification("*", () => {})
      .onRequest(methods.client.session.requestPermission, () => ({
        outcome: { outcome: "cancelled" as const },
      }));
    this.#connection = app.connect(socketStream(this.#socket as WebSocket));
    const { agentInfo } = await withAgentTimeout<InitializeResponse>(initialize(this.#connection));
    const name = agentInfo
      ? `${brief(agentInfo.title ?? agentInfo.name)} ${brief(agentInfo.version)}`
      : "the agent";
    return { status: "ok", detail: `${name} answers` };
  }

  /** Runs a turn in a temporary session, which is deleted afterwards. */
  async #checkTurn(): Promise<Check> {
    const { agent } = this.#connection as ClientConnection;
    const startedAt = Date.now();
    const { sessionId } = await agent.request(methods.agent.session.new, { cwd: "/", mcpServers: [] });
    try {
      const { stopReason } = await agent.request(methods.agent.session.prompt, {
        sessionId,
        prompt: [{ type: "text", text: this.#prompt as string }],
      });
      const detail = `${brief(stopReason)} after ${((Date.now() - startedAt) / 1000).toFixed(1)} s`;
      return stopReason === "end_turn" ? { status: "ok", detail } : failedCheck(detail, EXIT.turn);
    } catch (error) {
      return failedCheck(
        `the turn failed: ${brief(describeError(error), 300)}`,
        EXIT.turn,
        "`acp-edge sessions ls` shows more.",
      );
    } finally {
      await agent.request(methods.agent.session.delete, { sessionId }).catch(() => {});
    }
  }

  get #api(): ApiClient {
    return new ApiClient(this.#target);
  }
}

async function attempt(check: () => Promise<Check> | Check): Promise<Check> {
  try {
    return await check();
  } catch (error) {
    return failedCheck(brief(describeError(error), 300), error instanceof CliError ? error.code : EXIT.error);
  }
}

/** Rejects if the agent does not answer in time. */
function withAgentTimeout<T>(promise: Promise<T>): Promise<T> {
  return Promise.race([
    promise,
    new Promise<never>((_, reject) => {
      setTimeout(() => reject(new Error("the agent does not answer in time")), AGENT_TIMEOUT_MS).unref();
    }),
  ]);
}
