import { version } from "../../../package.json";
import { ErrorCode, type RpcError } from "../../protocol/errors.ts";

/** What the gateway adds to any agent: it has the history and the index, so it can do all of this itself. */
const OWN_CAPABILITIES = {
  loadSession: true,
  sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {}, fork: {} },
};

/** The gateway's answer to `initialize`: the agent's own, with the session methods the gateway provides. */
export function initializeResult(agent: Record<string, unknown> | null): Record<string, unknown> {
  const own = record(agent?.agentCapabilities);
  return {
    ...(agent ?? { agentInfo: { name: "acp-edge", version } }),
    protocolVersion: 1,
    agentCapabilities: {
      ...own,
      ...OWN_CAPABILITIES,
      sessionCapabilities: { ...record(own.sessionCapabilities), ...OWN_CAPABILITIES.sessionCapabilities },
    },
    authMethods: agent?.authMethods ?? [],
  };
}

/** Version 1 is what we speak; a client that offers another integer learns it from our answer. */
export function checkInitialize(params: unknown): RpcError | undefined {
  const version = record(params).protocolVersion;
  if (typeof version === "number" && Number.isInteger(version) && version >= 0) return undefined;
  return { code: ErrorCode.invalidParams, message: "protocolVersion must be an integer" };
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}
