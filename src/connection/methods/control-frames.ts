import { sessionObject, workspaceObject } from "../../durable/object-names.ts";
import type { Caller } from "../../protocol/caller.ts";
import { type AgentStatusNotice, ExtensionMethod } from "../../protocol/extensions.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { whyNot } from "../../workspace/agents/availability.ts";
import type { WorkspaceView } from "../../workspace/workspace-state.ts";
import type { Client } from "../client.ts";

/**
 * Control frames of `/agent/ws`: JSON objects that are no JSON-RPC, by which a web client chooses its agent and
 * hears how that one is.
 */
type ControlFrame = { type: "ping" } | { type: "select_agent"; agentType: string };

export const PING = '{"type":"ping"}';
export const PONG = '{"type":"pong"}';

type AgentStatus = "starting" | "ready" | "error" | "restarting";

/** `leaves`: it has nothing to do with its sessions any more. */
type ControlledClient = Client & { leaves(): void };

export class AgentControl {
  readonly #env: Env;
  readonly #client: ControlledClient;
  readonly #say: (text: string) => void;

  constructor(env: Env, client: ControlledClient, say: (text: string) => void) {
    this.#env = env;
    this.#client = client;
    this.#say = say;
  }

  /** False: that was no control frame. */
  async receive(value: Readonly<Record<string, unknown>>): Promise<boolean> {
    const frame = readControl(value);
    if (frame?.type === "ping") this.#say(PONG);
    if (frame?.type === "select_agent") await this.#select(frame.agentType);
    return frame !== undefined;
  }

  /** An agent nobody has leaves things as they are. Any other takes the place of the one in use, which stops. */
  async #select(agentType: string): Promise<void> {
    const { caller, workspace: id, initialized } = this.#client.state;
    const workspace = workspaceObject(this.#env, caller.tenant, id);
    const refused = whyNot((await workspace.view(caller, id)).agents, agentType);
    if (refused !== undefined) return this.#say(agentStatus("error", agentType, refused));
    this.#say(agentStatus(initialized ? "restarting" : "starting", agentType));
    await this.#leaveSessions();
    this.#client.change({ agent: agentType, initialized: false });
    // Waits for an agent that is about to say what it can do.
    await workspace.choose(caller, agentType);
    this.#say(statusIn(await workspace.view(caller, id), agentType, caller));
  }

  async #leaveSessions(): Promise<void> {
    const { connection, caller } = this.#client.state;
    await Promise.all(
      this.#client.sessions().map(async (sessionId) => {
        const session = sessionObject(this.#env, caller.tenant, sessionId);
        await session.close(caller, connection);
        await session.detach(connection);
      }),
    );
    this.#client.leaves();
  }

  /** Tells what a session says of its agent; false: it is something else. */
  tells(frame: string): boolean {
    if (!frame.includes(ExtensionMethod.agentStatus)) return false;
    const { method, params } = JSON.parse(frame) as { method?: unknown; params?: AgentStatusNotice };
    if (method !== ExtensionMethod.agentStatus || !params) return false;
    this.#say(agentStatus(params.status, this.#client.state.agent ?? "", params.error));
    return true;
  }
}

function readControl({ type, agentType }: Readonly<Record<string, unknown>>): ControlFrame | undefined {
  if (type === "ping") return { type };
  if (type === "select_agent" && typeof agentType === "string" && agentType.length <= LIMITS.idChars)
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

/** How an agent is that has been chosen: ready when a host is there that has not failed to start it. */
function statusIn(view: WorkspaceView, agentType: string, { redacted }: Caller): string {
  const { id, hosts, agents, container } = view;
  const agent = agents.find((one) => one.id === agentType);
  // A container is started by the session that needs it.
  const isServed = container !== null || hosts.some(({ state }) => state !== "gone");
  if (!isServed || !agent)
    return agentStatus("error", agentType, `No host of the workspace ${id} is connected`);
  if (agent.error === null) return agentStatus("ready", agentType);
  // It may have what the process wrote before it ended.
  return agentStatus("error", agentType, redacted ? "The agent could not be started" : agent.error);
}
