import { callObject, RESPONSE_MS } from "../../durable/object-call.ts";
import { sessionObject, type WorkspaceObject, workspaceObject } from "../../durable/objects.ts";
import { agentNamed, unavailableReason } from "../../protocol/agent-availability.ts";
import type { Caller } from "../../protocol/caller.ts";
import { type AgentStatusNotice, ExtensionMethod } from "../../protocol/extensions.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { WorkspaceView } from "../../protocol/rest.ts";
import { RPC_VERSION } from "../../protocol/versions.ts";
import { type Client, subscriptionsOf } from "../client.ts";

/**
 * Control frames of `/agent/ws`: JSON objects that are no JSON-RPC messages, by which a web client chooses its agent
 * and learns the agent's status.
 */
type ControlFrame = { type: "ping" } | { type: "select_agent"; agentType: string };

export const PING = '{"type":"ping"}';
export const PONG = '{"type":"pong"}';

/** The status of an agent, as control frames name it. */
type AgentStatus = "starting" | "ready" | "error" | "restarting";

type ControlledClient = Client & {
  /** Detaches the client from all its sessions. */
  releaseAll(): void;
};

type ControlLimits = Pick<Limits, "agentStartMs" | "idChars">;

/** Serves the control frames of one client. */
export class AgentControl {
  readonly #env: Env;
  readonly #client: ControlledClient;
  readonly #limits: ControlLimits;
  readonly #say: (text: string) => void;

  constructor(env: Env, client: ControlledClient, limits: ControlLimits, say: (text: string) => void) {
    this.#env = env;
    this.#client = client;
    this.#limits = limits;
    this.#say = say;
  }

  /** False when the object is no control frame. */
  async receive(value: Readonly<Record<string, unknown>>): Promise<boolean> {
    const frame = readControl(value, this.#limits.idChars);
    if (frame?.type === "ping") this.#say(PONG);
    if (frame?.type === "select_agent") await this.#select(frame.agentType);
    return frame !== undefined;
  }

  /** Replaces the agent in use, which stops. An agent that the workspace does not have changes nothing. */
  async #select(agentType: string): Promise<void> {
    const { caller, workspace: id } = this.#client.state;
    const callWorkspace = <R>(call: (workspace: WorkspaceObject) => R, timeoutMs?: number) =>
      callObject(() => workspaceObject(this.#env, caller.tenant, id), call, { timeoutMs });
    const { agents } = await callWorkspace((workspace) => workspace.view(caller, id));
    const refused = unavailableReason(agents, agentType);
    if (refused !== undefined) return this.#say(agentStatus("error", agentType, refused));
    this.#say(agentStatus("starting", agentType));
    await this.#leaveSessions();
    this.#client.change({ agent: agentType, agentType, initialized: false });
    // Resolves when an agent that is starting has answered `initialize`.
    const startMs = this.#limits.agentStartMs + RESPONSE_MS;
    await callWorkspace((workspace) => workspace.selectAgent(caller, agentType), startMs);
    const view = await callWorkspace((workspace) => workspace.view(caller, id));
    this.#say(statusIn(view, agentType, caller));
  }

  async #leaveSessions(): Promise<void> {
    const { connection, caller, sent } = this.#client.state;
    const subscriptions = subscriptionsOf(this.#client.state);
    const order = { v: RPC_VERSION, caller, number: sent, subscriptions, closes: true, frame: null };
    await Promise.all(
      this.#client.sessions().map(async (sessionId) => {
        const find = () => sessionObject(this.#env, caller.tenant, sessionId);
        const left = await callObject(find, (session) => session.detach(connection, order));
        // Release 0.1.0 ignores the order.
        if (left === undefined) await callObject(find, (session) => session.close(caller, connection));
        if (left?.ok && left.value.ended) await callObject(find, (session) => session.detach(connection));
      }),
    );
    this.#client.releaseAll();
  }

  /** Turns a session's notice of its agent's status into a control frame; false for any other frame. */
  consume(frame: string): boolean {
    if (!frame.includes(ExtensionMethod.agentStatus)) return false;
    const { method, params } = JSON.parse(frame) as { method?: unknown; params?: AgentStatusNotice };
    if (method !== ExtensionMethod.agentStatus || !params) return false;
    const { agentType, agent } = this.#client.state;
    this.#say(agentStatus(params.status, agentType ?? agent ?? "", params.error));
    return true;
  }
}

function readControl(
  { type, agentType }: Readonly<Record<string, unknown>>,
  idChars: number,
): ControlFrame | undefined {
  if (type === "ping") return { type };
  if (type === "select_agent" && typeof agentType === "string" && agentType.length <= idChars)
    return { type, agentType };
  return undefined;
}

function agentStatus(status: AgentStatus, agentType: string, error?: string): string {
  return JSON.stringify({
    type: "agent_status",
    status,
    agentType,
    ...(error === undefined ? {} : { error }),
  });
}

/** The status of a chosen agent: ready if a host is connected that has not failed to start the agent. */
function statusIn(view: WorkspaceView, agentType: string, { redacted }: Caller): string {
  const { id, hosts, agents, container } = view;
  const agent = agentNamed(agents, agentType);
  // A container starts with the first session that needs it.
  const isServed = container !== null || hosts.some(({ state }) => state !== "gone");
  if (!isServed || !agent)
    return agentStatus("error", agentType, `No host of the workspace ${id} is connected`);
  if (agent.error === null) return agentStatus("ready", agentType);
  // The error may quote output of the process.
  return agentStatus("error", agentType, redacted ? "The agent could not be started" : agent.error);
}
