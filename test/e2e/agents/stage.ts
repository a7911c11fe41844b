/** A published agent on stage: directly, and behind a gateway. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { eventually, type Gateway, startGateway } from "../gateway.ts";
import { ModelStandIn } from "../model-stand-in/server.ts";
import { textOf } from "../updates.ts";
import { tapped } from "../wires/agent-tap.ts";
import { processWire } from "../wires/process-wire.ts";
import { type Connect, TRANSPORTS } from "../wires/transports.ts";
import { type Turn, text, WireClient } from "../wires/wire-client.ts";
import {
  answer,
  answerOf,
  COLOUR,
  type Conversation,
  converse,
  EVERYTHING,
  type TurnName,
} from "./capable-client.ts";
import type { PublishedAgent } from "./published.ts";

/** The agent twice, directly and behind a gateway, with a conversation each. */
export class Stage {
  readonly taps: string;
  readonly root: string;
  readonly directRoot: string;
  readonly clients: WireClient[] = [];
  gateway!: Gateway;
  direct!: Conversation;
  through!: Conversation;
  readonly #agent: PublishedAgent;
  readonly #command: string[];
  readonly #directory = realpathSync(mkdtempSync(join(tmpdir(), "acp-edge-published-")));
  #model: ModelStandIn | undefined;

  constructor(agent: PublishedAgent, modules: string) {
    this.#agent = agent;
    this.#command = agent.command(modules);
    this.taps = this.#make("taps");
    this.root = this.#make("root");
    this.directRoot = this.#make("direct");
  }

  async start(): Promise<void> {
    this.#model = await ModelStandIn.start();
    const env = this.#agent.env(this.#model.url);
    const catalogue = join(this.#directory, "catalogue.json");
    const { id, name } = this.#agent;
    writeFileSync(catalogue, JSON.stringify([{ id, name, command: tapped(this.taps, this.#command) }]));
    this.gateway = await startGateway({
      root: this.root,
      args: [
        ...["--agents", id, "--catalogue", catalogue, "--isolation", "none"],
        ...["--pass-env", Object.keys(env).join(",")],
      ],
      env: { ...env, HOME: this.#home("home") },
    });
    this.direct = await converse(this.#directly(env), this.directRoot);
    await this.direct.client.end();
    this.through = await converse(this.#connect(), this.root);
    this.clients.push(this.through.client);
  }

  async end(): Promise<void> {
    await this.gateway?.[Symbol.asyncDispose]();
    await this.#model?.[Symbol.asyncDispose]();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  turn(name: TurnName): Turn {
    return this.through.turns.get(name) as Turn;
  }

  /** A new connection, as soon as the gateway takes it. */
  async reconnect(): Promise<WireClient> {
    let client: WireClient | undefined;
    await eventually(async () => {
      client = await WireClient.open(this.#connect(), EVERYTHING);
      return true;
    }, 60_000);
    (client as WireClient).answering = answer;
    this.clients.push(client as WireClient);
    return client as WireClient;
  }

  async answerQuestionWithNobodyAttached(): Promise<void> {
    const { sessionId } = this.through;
    expect((await this.gateway.api("/api/questions")).status).toBe(200);
    const asker = await this.reconnect();
    asker.answering = () => undefined;
    await asker.request("session/resume", { sessionId, cwd: this.root });
    // The first client would answer the question, and its transcript is compared with that of the direct client.
    await this.through.client.end();
    asker.send({
      id: "question",
      method: "session/prompt",
      params: { sessionId, prompt: text("[[ask Which colour?]]") },
    });
    type Question = { id: string; sessionId: string };
    let question: Question | undefined;
    await eventually(async () => {
      const { questions } = (await (await this.gateway.api("/api/questions")).json()) as {
        questions: Question[];
      };
      question = questions.find((candidate) => candidate.sessionId === sessionId);
      return question !== undefined;
    });
    await asker.end();
    const path = `/api/questions/${question?.id}`;
    const { requestedSchema } = (await (await this.gateway.api(path)).json()) as { requestedSchema: unknown };
    const response = await this.gateway.api(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ action: "accept", content: answerOf(requestedSchema) }),
    });
    expect(response.status).toBe(200);
    const reader = await this.reconnect();
    const from = reader.frames.entries.length;
    await reader.request("session/load", { sessionId, cwd: this.root, mcpServers: [] });
    const said = () => textOf(reader.since(from, sessionId).updates);
    await eventually(() => said().split(COLOUR).length > 2);
  }

  #connect(): Connect {
    return TRANSPORTS.WebSocket(this.gateway, this.#agent.id);
  }

  #directly(env: Record<string, string>): Connect {
    const [, ...args] = this.#command;
    const variables = { PATH: process.env.PATH, HOME: this.#home("direct-home"), ...env };
    const command = [process.execPath, ...args];
    return async (events) => processWire({ command, cwd: this.directRoot, env: variables }, events);
  }

  #home(name: string): string {
    const home = this.#make(name);
    this.#agent.prepareHome?.(home);
    return home;
  }

  #make(name: string): string {
    const path = join(this.#directory, name);
    mkdirSync(path);
    return path;
  }
}
