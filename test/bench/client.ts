/** The SDK's client, with a handler that only reads the number of each update. All contenders share it. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type ClientConnection,
  client,
  methods,
  PROTOCOL_VERSION,
  type SessionNotification,
} from "@agentclientprotocol/sdk";
import type { Transport } from "./contender.ts";
import { addFaults, type Faults, noFaults, Tracker } from "./tracker.ts";

/** The SDK may handle an update a moment after the response that followed it, but not this much later. */
const STRAGGLER_MS = 2_000;
/** A measurement that takes longer hangs. */
const STALL_MS = 60_000;

/** The number that `/stream` writes at the start of each update. */
const INDEX_DIGITS = 6;

/** The load of `/stream COUNT SIZE`. */
export type Load = { count: number; size: number };

export class BenchClient {
  readonly #transport: Transport;
  readonly #connection: ClientConnection;
  readonly #trackers = new Map<string, Tracker>();

  private constructor(transport: Transport) {
    this.#transport = transport;
    this.#connection = client({ name: "bench" })
      .onNotification(methods.client.session.update, ({ params }) => this.#update(params))
      .connect(transport.stream);
  }

  static async open(transport: Transport): Promise<BenchClient> {
    const bench = new BenchClient(transport);
    const request = { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} };
    await inTime(bench.#connection.agent.request(methods.agent.initialize, request), "initialize");
    return bench;
  }

  get compressed(): boolean {
    return this.#transport.compressed();
  }

  async newSession(cwd: string): Promise<string> {
    const request = this.#connection.agent.request(methods.agent.session.new, { cwd, mcpServers: [] });
    const { sessionId } = await inTime(request, "session/new");
    this.#trackers.set(sessionId, new Tracker());
    return sessionId;
  }

  /** Runs one turn; resolves when its response and all its updates have arrived. */
  stream(sessionId: string, load: Load): Promise<void> {
    const text = `/stream ${load.count} ${load.size}`;
    return this.#expecting(sessionId, load, () =>
      this.#connection.agent.request(methods.agent.session.prompt, {
        sessionId,
        prompt: [{ type: "text", text }],
      }),
    );
  }

  async closeSession(sessionId: string): Promise<void> {
    await inTime(this.#connection.agent.request(methods.agent.session.close, { sessionId }), "session/close");
  }

  /** Replays the history of a session, which is one turn of this load. */
  load(sessionId: string, cwd: string, load: Load): Promise<void> {
    return this.#expecting(sessionId, load, () =>
      this.#connection.agent.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] }),
    );
  }

  /** The faults since the last call. */
  collectFaults(): Faults {
    return [...this.#trackers.values()].map((tracker) => tracker.collect()).reduce(addFaults, noFaults());
  }

  async close(): Promise<void> {
    this.#connection.close();
    await this.#transport.close();
  }

  async #expecting(sessionId: string, { count, size }: Load, request: () => Promise<unknown>): Promise<void> {
    let tracker = this.#trackers.get(sessionId);
    if (!tracker) {
      tracker = new Tracker();
      this.#trackers.set(sessionId, tracker);
    }
    tracker.begin(count, size);
    await inTime(request(), "the response");
    if (count > 0) await Promise.race([tracker.complete, sleep(STRAGGLER_MS, undefined, { ref: false })]);
  }

  #update({ sessionId, update }: SessionNotification): void {
    if (update.sessionUpdate !== "agent_message_chunk" || update.content.type !== "text") return;
    const tracker = this.#trackers.get(sessionId);
    if (!tracker) return;
    const { text } = update.content;
    // A replay may merge many chunks of a message.
    for (let at = 0; at < text.length; at += tracker.size) {
      tracker.see(Number(text.slice(at, at + INDEX_DIGITS)));
    }
  }
}

async function inTime<T>(promise: Promise<T>, what: string): Promise<T> {
  const timer = Promise.withResolvers<never>();
  const timeout = setTimeout(() => timer.reject(new Error(`${what} took over ${STALL_MS} ms`)), STALL_MS);
  try {
    return await Promise.race([promise, timer.promise]);
  } finally {
    clearTimeout(timeout);
  }
}
