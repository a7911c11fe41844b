import { type HostControl, LINK_VERSION } from "../../../src/protocol/host-wire.ts";
import { Agent, INITIALIZED } from "./agent.ts";
import { dialHost, Peer } from "./peer.ts";

/** The first message of a host, without its name and instance. */
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
  agents?: { id: string; name: string; default: boolean; aliases?: string[] }[];
};

/** `io` is the side that serves the files of the process, as the workspace decided. */
type Order = { sessionId: string; processRequest: number; io?: "host" | "client" };

/** A host whose agents follow the test, one frame at a time. */
export class Host extends Peer {
  readonly workspace: string;
  readonly name: string;
  readonly instance: string;
  /** Whether the host answers probes. */
  answersProbes = true;
  /** The capabilities its agents report. */
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
    const { initialize = true, runs = [], capacity = HELLO.capacity, maxAgents } = options;
    const { agents = HELLO.agents } = options;
    const host = new Host(await dialHost(workspace, "/host/control"), workspace, options);
    const { name, instance } = host;
    host.send(JSON.stringify({ ...HELLO, name, instance, runs, capacity, maxAgents, agents }));
    const answer = await host.takeJson();
    if (answer.t !== "welcome") throw new Error(`The host was not welcome: ${JSON.stringify(answer)}`);
    if (initialize) host.send(JSON.stringify({ t: "agent", id: "scripted", initialize: INITIALIZED }));
    return host;
  }

  /** Disconnects, without a goodbye unless the code is 1000; resolves when the workspace knows. */
  async leave(code = 3000): Promise<void> {
    this.socket.close(code);
    await this.closed;
  }

  /** Sends a message on the control socket. */
  tell(message: HostControl): void {
    this.send(JSON.stringify(message));
  }

  /** Waits for a process request of the gateway. */
  async order(): Promise<Order> {
    const order = await this.takeJson();
    // These agents are always warm.
    if (order.t === "probe" || order.t === "warm") return this.order();
    if (order.t !== "open") throw new Error(`Expected open, got ${JSON.stringify(order)}`);
    return order as Order;
  }

  /** Waits for a process request and starts an agent that has answered initialize. */
  async agent(): Promise<Agent> {
    const { sessionId, processRequest, io } = await this.order();
    const agent = await Agent.start(this.workspace, sessionId, {
      host: this.name,
      processRequest,
      io,
    });
    agent.start(this.capabilities);
    return agent;
  }
}
