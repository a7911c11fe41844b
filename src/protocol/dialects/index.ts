import type { RpcError } from "../errors.ts";
import type { Frame } from "../frame.ts";
import { hasOwnNames, seed000 } from "./container-data-model.ts";
import type { Dialect } from "./dialect.ts";
import { withStdioServers } from "./local-mcp-servers.ts";
import { type Fields, fields, InvalidParams } from "./message.ts";
import type { Translation } from "./requests.ts";
import { seed002 } from "./web-gateway.ts";

const DIALECTS = { "seed-000": seed000, "seed-002": seed002 } satisfies Record<string, Dialect>;

export type DialectName = keyof typeof DIALECTS;

export function isDialectName(name: unknown): name is DialectName {
  return typeof name === "string" && name in DIALECTS;
}

/** The dialect of a client, by the parameters of its `initialize`. */
function detect(offered: unknown): DialectName | null {
  const { protocolVersion: version, capabilities, clientCapabilities } = fields(offered);
  const older = typeof version === "string" && (version === "1" || version.startsWith("0."));
  // An integer from 2 on with `capabilities` is version 2 of the protocol.
  const newer = typeof version !== "number" || !Number.isInteger(version) || version >= 2;
  if (!older && newer) return null;
  if (hasOwnNames(clientCapabilities) || hasOwnNames(capabilities)) return "seed-000";
  if (capabilities !== undefined && clientCapabilities === undefined) return "seed-002";
  if (!older) return null;
  return version === "1" ? "seed-002" : "seed-000";
}

/**
 * What a client says in its `initialize`: its dialect, its offer in canonical ACP, and how to put the answer in
 * the client's own terms.
 */
export function readOffer(offer: unknown): {
  dialect: DialectName | null;
  offer: unknown;
  answered: (result: Fields) => Fields;
} {
  const dialect = detect(offer);
  if (dialect === null) return { dialect, offer, answered: (result) => result };
  const { initialize, initialized } = DIALECTS[dialect];
  const offered = fields(offer);
  return { dialect, offer: initialize(offered), answered: (result) => initialized(result, offered) };
}

/** A frame in canonical ACP, or what is to be done in its place. */
export function translate(name: DialectName, frame: Frame): Translation | { refuse: RpcError } {
  return refusing(() => DIALECTS[name].fromClient(frame));
}

/** What a session has for a client, in the terms of its dialect; mostly one message. */
export function translateBack(name: DialectName, raw: string, sessionId: string): string[] {
  return DIALECTS[name].toClient(raw, sessionId);
}

/** What opens a session of a canonical client: the one place where seed 003 differs from canonical ACP. */
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
