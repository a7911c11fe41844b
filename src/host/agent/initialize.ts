import { VERSION } from "../../node/version.ts";

/**
 * The `initialize` request of the host. Each agent process gets it once, before any client is known, so it offers the
 * capabilities that can always be honoured: files and terminals of the workspace, and questions, which wait for a person
 * whether a client is attached or not. If the workspace leaves files
 * and terminals to its clients, the offer stands for them: an agent that asks a client without the capability gets
 * an error.
 */
export const INITIALIZE = JSON.stringify({
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: {
    protocolVersion: 1,
    clientCapabilities: {
      fs: { readTextFile: true, writeTextFile: true },
      terminal: true,
      elicitation: { form: {}, url: {} },
    },
    clientInfo: { name: "acp-edge", version: VERSION },
  },
});

export type Initialized = { result: Record<string, unknown> } | { error: string };

export function isInitializeAnswer(message: Record<string, unknown>): boolean {
  return message.id === 0 && message.method === undefined;
}

/** Some agents answer with a protocol version that they were not offered, and with another shape of result. */
export function readInitializeAnswer(
  { result, error }: Record<string, unknown>,
  chars: number,
  maxChars: number,
): Initialized {
  if (chars > maxChars) return { error: `the agent's answer to initialize exceeds ${maxChars} characters` };
  if (typeof result !== "object" || result === null) {
    return { error: `the agent refused to initialize: ${JSON.stringify(error ?? result ?? null)}` };
  }
  const { protocolVersion } = result as Record<string, unknown>;
  if (protocolVersion !== 1) {
    return { error: `the agent speaks protocol version ${JSON.stringify(protocolVersion)}, not 1` };
  }
  return { result: result as Record<string, unknown> };
}
