/** A real demo agent in a child process, driven by the SDK's client, with every byte it writes on record. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import {
  type ClientApp,
  type ClientCapabilities,
  type ClientContext,
  type ContentBlock,
  client,
  methods,
  type NewSessionRequest,
  ndJsonStream,
  type SessionUpdate,
  type StopReason,
} from "@agentclientprotocol/sdk";
import schema from "@agentclientprotocol/sdk/schema/v1/schema.json" with { type: "json" };
import { Ajv2020 } from "ajv/dist/2020.js";
import { Changes } from "../changes.ts";
import { textOf } from "../updates.ts";

const MAIN = fileURLToPath(new URL("../../../src/demo-agent/main.ts", import.meta.url));
const NODE = fileURLToPath(new URL("../../../node_modules/.bin/node", import.meta.url));

const EVERYTHING: ClientCapabilities = {
  fs: { readTextFile: true, writeTextFile: true },
  terminal: true,
  session: { notices: {}, compaction: {}, configOptions: { boolean: {} } },
  elicitation: { form: {}, url: {} },
};

const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema(schema, "acp");
export const isSessionNotification = ajv.compile({ $ref: "acp#/$defs/SessionNotification" });

type Message = { id?: unknown; method?: string; params?: Record<string, unknown>; result?: unknown };
type Turn = { stopReason: StopReason; updates: SessionUpdate[]; text: string; lines: string[] };

export class DemoAgent {
  readonly child: ChildProcess;
  stderr = "";
  #bytes: Buffer[] = [];
  #pending = "";
  /** Complete lines of stdout, in order. */
  readonly lines: string[] = [];
  readonly #changes = new Changes();

  constructor(env: Record<string, string> = {}) {
    this.child = spawn(NODE, [MAIN], { stdio: "pipe", env: { ...process.env, ...env } });
    this.child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      this.#changes.announce();
    });
    this.child.on("exit", () => this.#changes.announce());
  }

  /** Connects the SDK's client; `app` has handlers for the agent's requests. */
  connect(app: ClientApp = client()): ClientContext {
    app.onNotification("*", () => {});
    const input = Readable.toWeb(this.child.stdout!) as ReadableStream<Uint8Array>;
    const recorded = input.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform: (chunk, controller) => {
          this.#record(Buffer.from(chunk));
          controller.enqueue(chunk);
        },
      }),
    );
    return app.connect(ndJsonStream(Writable.toWeb(this.child.stdin!), recorded)).agent;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#bytes);
  }

  get messages(): Message[] {
    return this.lines.map(parse).filter((message) => message !== undefined);
  }

  /** Waits for the first line, from `from` on, that satisfies the condition. */
  async until(condition: (line: string) => boolean, from = 0): Promise<string> {
    for (;;) {
      const line = this.lines.slice(from).find(condition);
      if (line !== undefined) return line;
      await this.#changes.next();
    }
  }

  async untilStderr(text: string): Promise<void> {
    while (!this.stderr.includes(text)) await this.#changes.next();
  }

  async exit(): Promise<[number | null, string | null]> {
    const { exitCode, signalCode } = this.child;
    if (exitCode !== null || signalCode !== null) return [exitCode, signalCode];
    return (await once(this.child, "exit")) as [number | null, string | null];
  }

  async stop(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.exit();
  }

  #record(chunk: Buffer): void {
    this.#bytes.push(chunk);
    const lines = (this.#pending + chunk.toString("latin1")).split("\n");
    this.#pending = lines.pop()!;
    this.lines.push(...lines.map((line) => Buffer.from(line, "latin1").toString("utf8")));
    this.#changes.announce();
  }
}

/** An initialized agent with one session. */
export class DemoSession {
  readonly agent: DemoAgent;
  readonly peer: ClientContext;
  readonly id: string;

  private constructor(agent: DemoAgent, peer: ClientContext, id: string) {
    this.agent = agent;
    this.peer = peer;
    this.id = id;
  }

  static async start(
    options: {
      env?: Record<string, string>;
      app?: ClientApp;
      capabilities?: ClientCapabilities;
      cwd?: string;
      load?: string;
    } = {},
  ): Promise<DemoSession> {
    const agent = new DemoAgent(options.env);
    const peer = agent.connect(options.app);
    await peer.request(methods.agent.initialize, {
      protocolVersion: 1,
      clientCapabilities: options.capabilities ?? EVERYTHING,
    });
    const params: NewSessionRequest = { cwd: options.cwd ?? "/tmp", mcpServers: [] };
    if (options.load) {
      await peer.request(methods.agent.session.load, { ...params, sessionId: options.load });
      return new DemoSession(agent, peer, options.load);
    }
    const { sessionId } = await peer.request(methods.agent.session.new, params);
    await agent.until((line) => line.includes("available_commands_update"));
    return new DemoSession(agent, peer, sessionId);
  }

  cancel(): Promise<void> {
    return this.peer.notify(methods.agent.session.cancel, { sessionId: this.id });
  }

  /** Runs a turn. Its updates are those on the wire before its response. */
  async prompt(prompt: string | ContentBlock[]): Promise<Turn> {
    const from = this.agent.lines.length;
    const blocks: ContentBlock[] = typeof prompt === "string" ? [{ type: "text", text: prompt }] : prompt;
    const { stopReason } = await this.peer.request(methods.agent.session.prompt, {
      sessionId: this.id,
      prompt: blocks,
    });
    const since = this.agent.lines.slice(from);
    const lines = since.slice(0, since.findIndex((line) => line.includes('"result":{"stopReason"')) + 1);
    const updates = lines.map(updateOf).filter((update) => update !== undefined);
    return { stopReason, updates, text: textOf(updates), lines };
  }

  /** Waits for a text of the running turn. */
  said(text: string): Promise<string> {
    return this.agent.until((line) => line.includes(text));
  }
}

export function updateOf(line: string): SessionUpdate | undefined {
  const message = parse(line);
  return message?.method === methods.client.session.update
    ? (message.params?.update as SessionUpdate)
    : undefined;
}

function parse(line: string): Message | undefined {
  try {
    return JSON.parse(line) as Message;
  } catch {
    return undefined;
  }
}
