import type { RpcError } from "../errors.ts";
import type { Frame } from "../frame.ts";
import { type JsonObject, recordOf } from "../json-value.ts";
import { containerDataModel, hasContainerNames } from "./container-data-model.ts";
import type { Dialect, KnownOfAgent } from "./dialect.ts";
import { withStdioServers } from "./local-mcp-servers.ts";
import { InvalidParams } from "./message.ts";
import type { Translation } from "./requests.ts";
import { webGateway } from "./web-gateway.ts";

const DIALECTS = { container: containerDataModel, "web-gateway": webGateway } satisfies Record<
  string,
  Dialect
>;

export type DialectName = keyof typeof DIALECTS;

export function isDialectName(name: unknown): name is DialectName {
  return typeof name === "string" && name in DIALECTS;
}

/** Detects the dialect of a client from the parameters of its `initialize`; null for canonical ACP. */
function detect(offered: unknown): DialectName | null {
  const { protocolVersion: version, capabilities, clientCapabilities } = recordOf(offered);
  const older = typeof version === "string" && (version === "1" || version.startsWith("0."));
  // An integer from 2 on with `capabilities` is version 2 of the protocol.
  const newer = typeof version !== "number" || !Number.isInteger(version) || version >= 2;
  if (!older && newer) return null;
  if (hasContainerNames(clientCapabilities) || hasContainerNames(capabilities)) return "container";
  if (capabilities !== undefined && clientCapabilities === undefined) return "web-gateway";
  if (!older) return null;
  return version === "1" ? "web-gateway" : "container";
}

/**
 * Reads the parameters of a client's `initialize`: the dialect, the parameters in canonical ACP, and the translation of
 * the result into the dialect.
 */
export function readOffer(offer: unknown): {
  dialect: DialectName | null;
  offer: unknown;
  answered: (result: JsonObject, known: KnownOfAgent) => JsonObject;
} {
  const dialect = detect(offer);
  if (dialect === null) return { dialect, offer, answered: (result) => result };
  const { initialize, initialized } = DIALECTS[dialect];
  const offered = recordOf(offer);
  return {
    dialect,
    offer: initialize(offered),
    answered: (result, known) => initialized(result, offered, known),
  };
}

/** A client's frame in canonical ACP, or the permission answer that the frame is, or the reason to refuse it. */
export function translate(name: DialectName, frame: Frame): Translation | { refuse: RpcError } {
  return refusing(() => DIALECTS[name].fromClient(frame));
}

/** A session's message for a client in its dialect: mostly one message. */
export function translateBack(name: DialectName, raw: string, sessionId: string): string[] {
  return DIALECTS[name].toClient(raw, sessionId);
}

/** A request that opens a session, in canonical ACP even if it configures local MCP servers. */
export function translateOpening(frame: Frame): { frame: Frame } | { refuse: RpcError } {
  return refusing(() => ({ frame: withStdioServers(frame) }));
}

function refusing<T>(read: () => T): T | { refuse: RpcError } {
  try {
    return read();
  } catch (error) {
    if (error instanceof InvalidParams) return { refuse: error.rpcError };
    throw error;
  }
}
