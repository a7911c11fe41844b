import { VERSION } from "../../node/version.ts";

/**
 * The host introduces itself to each agent process once, whichever clients come later, and offers what it
 * can always honour: the files and terminals of the workspace it runs in. Where the workspace leaves those to
 * its clients, the offer is made for them, and an agent that asks one that cannot gets an error.
 */
export const INITIALIZE = JSON.stringify({
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: {
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
    clientInfo: { name: "acp-edge", version: VERSION },
  },
});

export type Initialized = { result: Record<string, unknown> } | { error: string };

export function isInitializeAnswer(message: Record<string, unknown>): boolean {
  return message.id === 0 && message.method === undefined;
}

/** Some agents answer a version they were not offered, with another shape of result. */
export function readInitializeAnswer({ result, error }: Record<string, unknown>): Initialized {
  if (typeof result !== "object" || result === null) {
    return { error: `the agent refused to initialize: ${JSON.stringify(error ?? result ?? null)}` };
  }
  const { protocolVersion } = result as Record<string, unknown>;
  if (protocolVersion !== 1) {
    return { error: `the agent speaks protocol version ${JSON.stringify(protocolVersion)}, not 1` };
  }
  return { result: result as Record<string, unknown> };
}
