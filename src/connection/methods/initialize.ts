import { version } from "../../../package.json";
import { ErrorCode, type RpcError } from "../../protocol/errors.ts";
import { recordOf } from "../../protocol/json-value.ts";

/** Capabilities that the gateway adds to every agent: it keeps the history and the index itself. */
const OWN_CAPABILITIES = {
  loadSession: true,
  sessionCapabilities: {
    ...{ list: {}, resume: {}, close: {}, delete: {}, fork: {} },
    ...{ title: {}, archive: {}, status: {} },
  },
};

/**
 * The gateway's answer to `initialize`: the agent's answer, with the session methods that the gateway provides. A
 * transport whose streams can be resumed says for how long, under the name of the draft for durable transports.
 */
export function initializeResult(
  agent: Record<string, unknown> | null,
  retentionSeconds?: number,
): Record<string, unknown> {
  const own = recordOf(agent?.agentCapabilities);
  return {
    ...agent,
    // ACP asks every agent to name itself; the gateway answers for an agent that does not.
    agentInfo: agent?.agentInfo ?? { name: "acp-edge", version },
    protocolVersion: 1,
    agentCapabilities: {
      ...own,
      ...(own.mcpCapabilities !== undefined && { mcpCapabilities: withoutAcp(own.mcpCapabilities) }),
      ...OWN_CAPABILITIES,
      ...(retentionSeconds !== undefined && { transport: { resumable: { retentionSeconds } } }),
      sessionCapabilities: { ...recordOf(own.sessionCapabilities), ...OWN_CAPABILITIES.sessionCapabilities },
    },
    authMethods: usableLogins(agent?.authMethods),
  };
}

/**
 * A client would run a login in a terminal with the command of its agent, on its own machine. Behind the gateway that
 * command is the client's way to the gateway, and the agent keeps its login on the host. So no client can use such a login.
 */
function usableLogins(methods: unknown): unknown[] {
  return Array.isArray(methods) ? methods.filter((method) => recordOf(method).type !== "terminal") : [];
}

/** MCP over ACP needs the one client that has the server, and the agent talks to all clients of a session. */
function withoutAcp(capabilities: unknown): Record<string, unknown> {
  const { acp: _, ...rest } = recordOf(capabilities);
  return rest;
}

/** The gateway speaks version 1. A client that offers another integer learns that from the answer. */
export function checkInitialize(params: unknown): RpcError | undefined {
  const version = recordOf(params).protocolVersion;
  if (typeof version === "number" && Number.isInteger(version) && version >= 0) return undefined;
  return { code: ErrorCode.invalidParams, message: "protocolVersion must be an integer" };
}
