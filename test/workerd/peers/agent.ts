import { encodeLink, type HostHead } from "../../../src/protocol/host-wire.ts";
import type { Json } from "../../fixtures/json.ts";
import { dialHost, Peer } from "./peer.ts";

export const INITIALIZED = {
  protocolVersion: 1,
  agentCapabilities: {},
  agentInfo: { name: "scripted", version: "1" },
};

type StartedFor = { host: string; processRequest: number; io?: "host" | "client" | undefined };

/** One run of an agent as the host sees it: numbered items go up, numbered lines come down. */
export class Agent {
  readonly sessionId: string;
  readonly run = crypto.randomUUID();
  #workspace: string;
  #link: Peer;
  #items: string[] = [];
  #lines: { seq: number; frame: string }[] = [];
  #stop: string | undefined;
  delivered = 0;
  acknowledged = 0;

  readonly processRequest: number;
  #host: string;
  #io: StartedFor["io"];

  constructor(workspace: string, sessionId: string, link: Peer, { host, processRequest, io }: StartedFor) {
    this.#workspace = workspace;
    this.sessionId = sessionId;
    this.#link = link;
    this.#host = host;
    this.#io = io;
    this.processRequest = processRequest;
  }

  static async start(workspace: string, sessionId: string, started: StartedFor): Promise<Agent> {
    const link = new Peer(await dialHost(workspace, `/host/sessions/${sessionId}`));
    const agent = new Agent(workspace, sessionId, link, started);
    await agent.#hello();
    return agent;
  }

  get link(): Peer {
    return this.#link;
  }

  /** Opens a new socket for the running process, as after a lost connection. */
  async reconnect(): Promise<void> {
    this.#link.socket.close();
    this.#lines = [];
    this.#link = new Peer(await dialHost(this.#workspace, `/host/sessions/${this.sessionId}`));
    await this.#hello();
  }

  start(agentCapabilities: object = {}): void {
    this.items(
      JSON.stringify(["started", { pid: 1, command: "scripted" }]),
      JSON.stringify([
        "sent",
        '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}',
      ]),
      JSON.stringify({ jsonrpc: "2.0", id: 0, result: { ...INITIALIZED, agentCapabilities } }),
    );
  }

  /** Sends items as one message. */
  items(...items: string[]): void {
    this.#items.push(...items);
    this.sendFrom(this.#items.length - items.length + 1);
  }

  /** Sends all items from the given number on, possibly again. */
  sendFrom(first: number): void {
    const head = { t: "lines", first, delivered: this.delivered } satisfies HostHead;
    this.#link.send(encodeLink(head, this.#items.slice(first - 1)));
  }

  update(text: string, sessionId = "agent-session"): void {
    this.items(updateText(text, sessionId));
  }

  /** The next frame on the agent's stdin. */
  async line(): Promise<Json & { id?: number; params?: Json }> {
    return JSON.parse(await this.rawLine()) as Json;
  }

  /** The text of the next frame on the agent's stdin. */
  async rawLine(): Promise<string> {
    for (;;) {
      const next = this.#lines.shift();
      if (next) {
        this.delivered = next.seq;
        return next.frame;
      }
      await this.#read();
    }
  }

  /** Waits until this many lines have arrived that the agent has not taken. */
  async arrived(lines: number): Promise<void> {
    while (this.#lines.length < lines) await this.#read();
  }

  /** Waits until the gateway stops the process; resolves to the reason. */
  async stopped(): Promise<string> {
    while (this.#stop === undefined) await this.#read();
    return this.#stop;
  }

  /** Waits until the gateway has acknowledged every item. */
  async durable(): Promise<void> {
    while (this.acknowledged < this.#items.length) await this.#read();
  }

  answer(request: { id?: number }, result: unknown): void {
    this.items(JSON.stringify({ jsonrpc: "2.0", id: request.id, result }));
  }

  /** Answers session/new, as every agent does first. */
  async openSession(): Promise<Json> {
    const request = await this.line();
    this.answer(request, { sessionId: "agent-session" });
    return request;
  }

  async #hello(): Promise<void> {
    this.#link.send(
      JSON.stringify({
        t: "hello",
        run: this.run,
        agent: "scripted",
        host: this.#host,
        root: "/workspace",
        processRequest: this.processRequest,
        delivered: this.delivered,
        draining: false,
        io: this.#io,
      }),
    );
    while (!(await this.#read())) {}
  }

  /** Takes one message; returns whether it is the welcome. */
  async #read(): Promise<boolean> {
    const [head, ...lines] = (await this.#link.take()).split("\n");
    const { t, received, reason } = JSON.parse(head as string) as {
      t: string;
      received?: number;
      reason?: string;
    };
    if (t === "stop") this.#stop = reason ?? "";
    if (received !== undefined) this.acknowledged = received;
    for (const line of lines) {
      const space = line.indexOf(" ");
      this.#lines.push({ seq: Number(line.slice(0, space)), frame: line.slice(space + 1) });
    }
    return t === "welcome";
  }
}

export function updateText(text: string, sessionId = "agent-session"): string {
  return JSON.stringify({
    jsonrpc: "2.0",
    method: "session/update",
    params: { sessionId, update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } } },
  });
}

/** A permission request of the agent with the single option `yes`. */
export function permissionRequest(id: number): string {
  const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
  const params = { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options };
  return JSON.stringify({ jsonrpc: "2.0", id, method: "session/request_permission", params });
}

/** A question with every kind of field. */
export function questionRequest(id: number | string): string {
  const properties = {
    name: { type: "string", title: "Your name", minLength: 1 },
    colour: {
      type: "string",
      oneOf: [
        { const: "red", title: "Red" },
        { const: "blue", title: "Blue" },
      ],
    },
    times: { type: "integer", minimum: 0, maximum: 9 },
    really: { type: "boolean", default: true },
    tags: { type: "array", items: { type: "string", enum: ["a", "b"] } },
  };
  const requestedSchema = { type: "object", properties, required: ["name"] };
  const params = { sessionId: "agent-session", mode: "form", message: "Who are you?", requestedSchema };
  return JSON.stringify({ jsonrpc: "2.0", id, method: "elicitation/create", params });
}
