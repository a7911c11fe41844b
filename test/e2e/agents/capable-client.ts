/** A client that offers everything an agent can ask for, and the scripted turns that it has with one. */
import type { Message } from "../client.ts";
import type { Connect } from "../wires/transports.ts";
import { type Answer, type Turn, text, WireClient } from "../wires/wire-client.ts";

/** Files and commands are the host's behind the gateway, and the agent's own without it, so they are not offered. */
export const EVERYTHING = {
  auth: { terminal: true },
  elicitation: { form: {}, url: {} },
  plan: {},
  session: { notices: {}, compaction: {}, configOptions: { boolean: {} } },
  _meta: { terminal_output: true },
};

export const COLOUR = "Blue";

/** One turn: its name, and the words for the model. */
type Scripted = { name: TurnName; prompt: (root: string) => string; isCancelled?: boolean };
export type TurnName = "speech" | "file" | "command" | "question" | "cancel";

const SCRIPT: Scripted[] = [
  { name: "speech", prompt: () => "Please speak. [[think]] [[say 3]]" },
  { name: "file", prompt: (root) => `Please write. [[write ${root}/written.txt]]` },
  {
    name: "command",
    prompt: () => "Please run this. [[run echo first; sleep 1; echo second; touch ran.txt]]",
  },
  { name: "question", prompt: () => "Please ask. [[ask Which colour?]]" },
  { name: "cancel", prompt: () => "Please wait. [[hold]]", isCancelled: true },
];

export type Conversation = {
  client: WireClient;
  sessionId: string;
  opened: Message;
  turns: Map<TurnName, Turn>;
};

/** Allows what agents want to do once, and chooses a colour. */
export function answer({ method, params }: Message): Answer {
  if (method === "session/request_permission") {
    const options = params?.options as { optionId: string; kind: string }[];
    const optionId = options.find(({ kind }) => kind === "allow_once")?.optionId;
    return { result: { outcome: { outcome: "selected", optionId } } };
  }
  if (method === "elicitation/create")
    return { result: { action: "accept", content: answerOf(params?.requestedSchema) } };
  return { error: { code: -32601, message: `Method not found: ${method}` } };
}

/** A value for the first field of a form. */
export function answerOf(schema: unknown): Record<string, string> {
  const { properties = {} } = (schema ?? {}) as { properties?: object };
  return Object.fromEntries(
    Object.keys(properties)
      .slice(0, 1)
      .map((name) => [name, COLOUR]),
  );
}

/** Opens a session and has all turns of the script in it. */
export async function converse(connect: Connect, root: string): Promise<Conversation> {
  const client = await WireClient.open(connect, EVERYTHING);
  client.answering = answer;
  const opened = await client.request("session/new", { cwd: root, mcpServers: [] });
  const { sessionId } = opened.result as { sessionId: string };
  const turns = new Map<TurnName, Turn>();
  for (const { name, prompt, isCancelled } of SCRIPT) {
    const cancel = () => client.notify("session/cancel", { sessionId });
    turns.set(
      name,
      await client.prompt(sessionId, text(prompt(root)), isCancelled ? { during: cancel } : {}),
    );
  }
  // Some agents send the title of a session after the turn.
  await client.fence(sessionId);
  return { client, sessionId, opened, turns };
}
