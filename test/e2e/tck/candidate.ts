/** An agent behind the gateway, over one transport. Rows share its connection and sessions, so that a row takes milliseconds. */
import type { Message } from "../client.ts";
import type { Connect } from "../wires/transports.ts";
import { type Turn, text, WireClient } from "../wires/wire-client.ts";

/** An agent, and the prompts that make it do what rows need. */
export type AgentUnderTest = {
  id: string;
  prompts: {
    hello: string;
    /** Says something and then nothing until it is cancelled. */
    hold: string;
    /** Reads a file, runs a command and asks the user, with the means of the client if the client has them. */
    read: string;
    run: string;
    ask: string;
  };
  /** A method of `authenticate` that succeeds. */
  login?: string;
};

export type Session = { sessionId: string; result: Record<string, unknown> };

/** A row that does not apply: the agent lacks the capability, or the transport the notion. */
export class Skip extends Error {}

export class Candidate {
  readonly agent: AgentUnderTest;
  readonly root: string;
  readonly #connect: Connect;
  readonly #clients: WireClient[] = [];
  readonly #sessions = new Map<string, Promise<Session>>();
  #client: Promise<WireClient> | undefined;
  #exchange: Promise<Turn> | undefined;

  constructor(agent: AgentUnderTest, root: string, connect: Connect) {
    this.agent = agent;
    this.root = root;
    this.#connect = connect;
  }

  /** A connection on which nothing was sent. */
  async connect(): Promise<WireClient> {
    const client = await WireClient.connect(this.#connect);
    this.#clients.push(client);
    return client;
  }

  /** The connection that rows share. Its client offers nothing, and its initialize has the id 424242. */
  client(): Promise<WireClient> {
    this.#client ??= this.connect().then(async (client) => {
      await initialize(client, 1, INITIALIZE_ID);
      return client;
    });
    return this.#client;
  }

  async initialized(): Promise<Message> {
    const { frames } = await this.client();
    return (await frames.until(({ by, message }) => by === "server" && message?.id === INITIALIZE_ID))
      .message as Message;
  }

  async agentCapabilities(): Promise<Record<string, unknown>> {
    const { result } = await this.initialized();
    return ((result as Record<string, unknown>).agentCapabilities ?? {}) as Record<string, unknown>;
  }

  /** The session under this name, opened when a row first needs it. Its `session/new` has the name as its id. */
  session(name: string, params: object = {}): Promise<Session> {
    const known = this.#sessions.get(name);
    if (known) return known;
    const opening = this.#open(name, params);
    this.#sessions.set(name, opening);
    return opening;
  }

  /** A text turn in the session `shared`, with characters of several bytes. */
  exchange(): Promise<Turn> {
    this.#exchange ??= (async () => {
      const client = await this.client();
      const { sessionId } = await this.session("shared");
      return client.prompt(sessionId, text(`${this.agent.prompts.hello} – größer als 中文 😀`));
    })();
    return this.#exchange;
  }

  /** A turn in the session `shared`. */
  async turn(prompt: string, meta?: object): Promise<Turn> {
    await this.exchange();
    const client = await this.client();
    const { sessionId } = await this.session("shared");
    return client.prompt(sessionId, text(prompt), meta && { meta });
  }

  /** All connections, for the checks of everything that was sent. */
  get clients(): readonly WireClient[] {
    return this.#clients;
  }

  async #open(name: string, params: object): Promise<Session> {
    const client = await this.client();
    const answer = await client.request(
      "session/new",
      { cwd: this.root, mcpServers: [], ...params },
      { id: name },
    );
    const result = answer.result as Record<string, unknown> | undefined;
    if (typeof result?.sessionId !== "string") throw new Error(`session/new: ${JSON.stringify(answer)}`);
    return { sessionId: result.sessionId, result };
  }
}

export const INITIALIZE_ID = 424242;

export function initialize(
  client: WireClient,
  protocolVersion: number,
  id: unknown,
  more: object = {},
): Promise<Message> {
  return client.request("initialize", { protocolVersion, clientCapabilities: {}, ...more }, { id });
}
