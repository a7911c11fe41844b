import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { importJWK, type JWK, SignJWT } from "jose";
import { sessionObject } from "../../src/durable/object-names.ts";
import { encodeLink, type HostControl, type HostHead, LINK_VERSION } from "../../src/protocol/host-wire.ts";

/** Peers of the gateway, over the same sockets as the real ones: a client and a host with a scripted agent. */

type Json = Record<string, unknown>;

/** The object of a session. */
export function sessionStub(sessionId: string, tenant = "acme") {
  return sessionObject(env, tenant, sessionId);
}

/** Keeps an object from answering anybody, until the function it resolves to is called. */
export async function holdUp(object: DurableObjectStub): Promise<() => Promise<void>> {
  let [held, over] = [false, false];
  const holding = runInDurableObject(object, (_, state) =>
    state.blockConcurrencyWhile(async () => {
      held = true;
      while (!over) await scheduler.wait(5);
    }),
  );
  while (!held) await scheduler.wait(5);
  return () => {
    over = true;
    return holding;
  };
}

export async function token(claims: {
  workspace: string;
  scopes?: string[];
  tenant?: string;
  subject?: string;
}): Promise<string> {
  const key = await importJWK(JSON.parse(env.TEST_PRIVATE_KEY) as JWK, "EdDSA");
  const {
    workspace,
    tenant = "acme",
    subject = "someone",
    scopes = ["session:read", "session:prompt", "permission:answer"],
  } = claims;
  return (
    new SignJWT({ tenant, workspaces: [workspace], scopes })
      .setProtectedHeader({ alg: "EdDSA", kid: "test" })
      .setIssuer("acp-edge")
      .setAudience("acp-edge")
      .setSubject(subject)
      // Tests let hours pass.
      .setExpirationTime("7d")
      .sign(key)
  );
}

export async function get(path: string, bearer?: string, method = "GET"): Promise<Response> {
  return exports.default.fetch(`https://edge.test${path}`, {
    method,
    headers: bearer ? { Authorization: `Bearer ${bearer}` } : {},
  });
}

export async function send(method: string, path: string, bearer: string, body: unknown): Promise<Response> {
  return exports.default.fetch(`https://edge.test${path}`, {
    method,
    headers: { Authorization: `Bearer ${bearer}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

const PONG = '{"jsonrpc":"2.0","id":"acp-edge/ping","error":{"code":-32601,"message":"Method not found"}}';

/** A socket whose messages are taken one by one. */
export class Peer {
  /** It says at once that it reads, as any client does that knows no such method. */
  answersPings = true;
  readonly socket: WebSocket;
  readonly closed: Promise<{ code: number; reason: string }>;
  #messages: string[] = [];
  #takers: ((text: string) => void)[] = [];

  constructor(socket: WebSocket) {
    this.socket = socket;
    this.closed = new Promise((resolve) => {
      socket.addEventListener("close", ({ code, reason }) => resolve({ code, reason }));
    });
    socket.addEventListener("message", ({ data }) => {
      const text = data as string;
      if (this.answersPings && text.includes('"method":"_acp-edge/ping"')) return socket.send(PONG);
      const taker = this.#takers.shift();
      if (taker) taker(text);
      else this.#messages.push(text);
    });
    socket.accept();
  }

  static async connect(path: string, bearer: string): Promise<Peer> {
    const response = await exports.default.fetch(`https://edge.test${path}`, {
      headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
    });
    if (!response.webSocket) throw new Error(`No socket: ${response.status} ${await response.text()}`);
    return new Peer(response.webSocket);
  }

  send(text: string): void {
    this.socket.send(text);
  }

  take(): Promise<string> {
    const text = this.#messages.shift();
    return text === undefined ? new Promise((resolve) => this.#takers.push(resolve)) : Promise.resolve(text);
  }

  async takeJson(): Promise<Json> {
    return JSON.parse(await this.take()) as Json;
  }
}

/** An ACP client that sees every message in order. */
export class Client extends Peer {
  #nextId = 0;

  static async open(
    workspace: string,
    query = "",
    tenant = "acme",
    claims: { scopes?: string[]; subject?: string } = {},
  ): Promise<Client> {
    const peer = await Client.raw(workspace, query, tenant, claims);
    await peer.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
    return peer;
  }

  static async raw(
    workspace: string,
    query = "",
    tenant = "acme",
    claims: { scopes?: string[]; subject?: string } = {},
  ): Promise<Client> {
    const bearer = await token({ workspace, tenant, ...claims });
    const response = await exports.default.fetch(`https://edge.test/acp?workspace=${workspace}${query}`, {
      headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
    });
    if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
    return new Client(response.webSocket);
  }

  call(method: string, params: unknown): number {
    const id = this.#nextId++;
    this.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return id;
  }

  notify(method: string, params: unknown): void {
    this.send(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  /** Sends a request and takes messages up to its response. */
  async request(method: string, params: unknown): Promise<{ response: Json; before: Json[] }> {
    return this.until(this.call(method, params));
  }

  async until(id: unknown): Promise<{ response: Json; before: Json[] }> {
    const before: Json[] = [];
    for (;;) {
      const message = await this.takeJson();
      if (message.id === id && !("method" in message)) return { response: message, before };
      before.push(message);
    }
  }

  async newSession(): Promise<string> {
    const { response } = await this.request("session/new", { cwd: "/somewhere/else", mcpServers: [] });
    return (response.result as { sessionId: string }).sessionId;
  }
}

/** What a host says first, but for which life of it says so. */
export const HELLO = {
  t: "hello",
  version: LINK_VERSION,
  name: "h1",
  instance: "",
  root: "/workspace",
  software: { version: "1.2.3", node: "v24.0.0", platform: "linux x64" },
  capacity: 8,
  draining: false,
  agents: [{ id: "scripted", name: "Scripted", default: true }],
  runs: [] as { sessionId: string; run: string }[],
} satisfies HostControl;

type JoinOptions = {
  initialize?: boolean;
  runs?: { sessionId: string; run: string }[];
  name?: string;
  instance?: string;
  capacity?: number;
  maxAgents?: number;
};

/** A host whose agents do what the test says, one frame at a time. */
export class Host extends Peer {
  readonly workspace: string;
  readonly name: string;
  readonly instance: string;
  /** Whether it says that it is there when it is asked. */
  answersProbes = true;
  /** Who serves its agents' files, as the workspace told it. */
  io: "host" | "client" | undefined;
  /** What its agents say they can do. */
  capabilities: object = {};

  constructor(socket: WebSocket, workspace: string, { name = "h1", instance }: JoinOptions = {}) {
    super(socket);
    this.workspace = workspace;
    this.name = name;
    this.instance = instance ?? crypto.randomUUID();
    socket.addEventListener("message", ({ data }) => {
      if (this.answersProbes && data === '{"t":"probe"}') this.send('{"t":"alive"}');
    });
  }

  static async join(workspace: string, options: JoinOptions = {}): Promise<Host> {
    const { initialize = true, runs = [], capacity = HELLO.capacity } = options;
    const host = new Host(await Host.dial(workspace, "/host/control"), workspace, options);
    const { name, instance } = host;
    host.send(JSON.stringify({ ...HELLO, name, instance, runs, capacity, maxAgents: options.maxAgents }));
    const answer = await host.takeJson();
    if (answer.t !== "welcome") throw new Error(`The host was not welcome: ${JSON.stringify(answer)}`);
    host.io = answer.clientIo as "client" | undefined;
    if (initialize) host.send(JSON.stringify({ t: "agent", id: "scripted", initialize: INITIALIZED }));
    return host;
  }

  static async dial(workspace: string, path: string): Promise<WebSocket> {
    const response = await exports.default.fetch(`https://edge.test${path}?workspace=${workspace}`, {
      headers: {
        Upgrade: "websocket",
        Authorization: `Bearer ${await token({ workspace, scopes: ["host"] })}`,
      },
    });
    if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
    return response.webSocket;
  }

  /** Is gone, without a goodbye unless the code is 1000; resolves when the workspace knows. */
  async leave(code = 3000): Promise<void> {
    this.socket.close(code);
    await this.closed;
  }

  /** Says something to the workspace. */
  tell(message: HostControl): void {
    this.send(JSON.stringify(message));
  }

  /** Waits until the gateway wants an agent. */
  async order(): Promise<{ sessionId: string; wish: number }> {
    const order = await this.takeJson();
    // Its agents are always warm.
    if (order.t === "probe" || order.t === "warm") return this.order();
    if (order.t !== "open") throw new Error(`Expected open, got ${JSON.stringify(order)}`);
    return order as { sessionId: string; wish: number };
  }

  /** Waits until the gateway wants an agent, and starts one that has answered initialize. */
  async agent(): Promise<Agent> {
    const { sessionId, wish } = await this.order();
    const agent = await Agent.start(this.workspace, sessionId, { host: this.name, wish, io: this.io });
    agent.start(this.capabilities);
    return agent;
  }
}

const INITIALIZED = {
  protocolVersion: 1,
  agentCapabilities: {},
  agentInfo: { name: "scripted", version: "1" },
};

type StartedFor = { host: string; wish: number; io?: "host" | "client" | undefined };

/** One run as the host sees it: numbered items up, numbered lines down. */
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

  readonly wish: number;
  #host: string;
  #io: StartedFor["io"];

  constructor(workspace: string, sessionId: string, link: Peer, { host, wish, io }: StartedFor) {
    this.#workspace = workspace;
    this.sessionId = sessionId;
    this.#link = link;
    this.#host = host;
    this.#io = io;
    this.wish = wish;
  }

  static async start(workspace: string, sessionId: string, started: StartedFor): Promise<Agent> {
    const link = new Peer(await Host.dial(workspace, `/host/sessions/${sessionId}`));
    const agent = new Agent(workspace, sessionId, link, started);
    await agent.#hello();
    return agent;
  }

  get link(): Peer {
    return this.#link;
  }

  /** A new socket for the same process, as after a lost connection. */
  async reconnect(): Promise<void> {
    this.#link.socket.close();
    this.#lines = [];
    this.#link = new Peer(await Host.dial(this.#workspace, `/host/sessions/${this.sessionId}`));
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

  /** Sends, or sends again, everything from the given item on. */
  sendFrom(first: number): void {
    this.#link.send(encodeLink({ t: "lines", first } satisfies HostHead, this.#items.slice(first - 1)));
  }

  update(text: string, sessionId = "agent-session"): void {
    this.items(updateText(text, sessionId));
  }

  /** The next frame on the agent's stdin. */
  async line(): Promise<Json & { id?: number; params?: Json }> {
    return JSON.parse(await this.rawLine()) as Json;
  }

  /** The same as its text. */
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

  /** Waits until that many lines have come that the agent has not taken. */
  async arrived(lines: number): Promise<void> {
    while (this.#lines.length < lines) await this.#read();
  }

  /** Waits until the gateway wants the process to end, and says why. */
  async stopped(): Promise<string> {
    while (this.#stop === undefined) await this.#read();
    return this.#stop;
  }

  /** Waits until the gateway has everything sent so far. */
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
        wish: this.wish,
        delivered: this.delivered,
        draining: false,
        io: this.#io,
      }),
    );
    while (!(await this.#read())) {}
  }

  /** Takes one message; true for the welcome. */
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

/** The agent asks whether it may; there is one answer, `yes`. */
export function permissionRequest(id: number): string {
  const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
  const params = { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options };
  return JSON.stringify({ jsonrpc: "2.0", id, method: "session/request_permission", params });
}

/** A workspace with a host, a client and an open session. */
export async function openSession(capabilities: object = {}): Promise<Opened> {
  const workspace = `w-${crypto.randomUUID()}`;
  const host = await Host.join(workspace);
  host.capabilities = capabilities;
  const client = await Client.open(workspace);
  const opening = client.newSession();
  const agent = await host.agent();
  await agent.openSession();
  return { workspace, host, client, agent, sessionId: await opening };
}

export type Opened = { workspace: string; host: Host; client: Client; agent: Agent; sessionId: string };

export async function eventsText(workspace: string, sessionId: string, query = ""): Promise<string> {
  const response = await get(`/api/sessions/${sessionId}/events${query}`, await token({ workspace }));
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return new TextDecoder().decode(await response.arrayBuffer());
}

export async function events(workspace: string, sessionId: string, query = ""): Promise<Json[]> {
  const lines = (await eventsText(workspace, sessionId, query)).split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Json);
}

export function texts(messages: Json[]): string[] {
  return messages.flatMap((m) => {
    const update = (
      m.params as { update?: { sessionUpdate?: string; content?: { text?: string } } } | undefined
    )?.update;
    return update?.sessionUpdate === "agent_message_chunk" ? [update.content?.text ?? ""] : [];
  });
}
