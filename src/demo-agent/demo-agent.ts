import { Readable } from "node:stream";
import {
  type AgentApp,
  type AgentContext,
  agent,
  type InitializeRequest,
  type InitializeResponse,
  type JsonRpcId,
  methods,
  ndJsonStream,
  PROTOCOL_VERSION,
  type PromptRequest,
  type PromptResponse,
  RequestError,
  type SetSessionConfigOptionRequest,
} from "@agentclientprotocol/sdk";
import { availableCommands } from "./commands.ts";
import { DemoSession } from "./demo-session.ts";
import { DemoSessions } from "./demo-sessions.ts";
import { DemoTurn, type Peer } from "./demo-turn.ts";
import { type Habit, withUuidIds } from "./habits.ts";
import type { Output } from "./output.ts";
import { playPrompt } from "./prompt-script.ts";
import { SessionStore } from "./session-store.ts";
import { configOptions, DEMO_MODES, isValidConfig } from "./settings.ts";

type Options = { habits: Set<Habit>; stateDirectory: string | undefined };

/** Serves one client on a pair of streams. Sessions share the process and nothing else. */
export function serve(input: Readable, out: Output, { habits, stateDirectory }: Options): void {
  const store = stateDirectory ? new SessionStore(stateDirectory) : undefined;
  const app = new DemoAgent(out, habits, store).app();
  const stream = ndJsonStream(out.sdkSink(), Readable.toWeb(input) as ReadableStream<Uint8Array>);
  app.connect(habits.has("ids") ? withUuidIds(stream) : stream);
}

/** The methods of the demo agent. */
class DemoAgent {
  readonly #out: Output;
  readonly #habits: Set<Habit>;
  readonly #canLoad: boolean;
  readonly #sessions: DemoSessions;
  readonly #peer: Peer = { protocolVersion: PROTOCOL_VERSION, clientInfo: null, capabilities: {} };

  constructor(out: Output, habits: Set<Habit>, store: SessionStore | undefined) {
    this.#out = out;
    this.#habits = habits;
    this.#canLoad = store !== undefined;
    this.#sessions = new DemoSessions(out, store);
  }

  app(): AgentApp {
    const sessions = this.#sessions;
    const { session } = methods.agent;
    const app = agent({ name: "demo-agent" })
      .onRequest(methods.agent.initialize, ({ params }) => this.#initialize(params))
      .onRequest(session.new, ({ params }) => this.#create(params.cwd, params.mcpServers))
      .onRequest(session.list, ({ params }) => ({ sessions: sessions.list(params.cwd) }))
      .onRequest(session.close, ({ params }) => sessions.close(sessions.find(params.sessionId).id))
      .onRequest(session.delete, ({ params }) => sessions.remove(params.sessionId))
      .onRequest(session.setMode, ({ params }) => this.#setMode(params.sessionId, params.modeId))
      .onRequest(session.setConfigOption, ({ params }) => this.#setConfigOption(params))
      .onRequest(session.prompt, ({ params, client, requestId, signal }) =>
        this.#prompt(params, client, requestId, signal),
      )
      .onNotification(session.cancel, ({ params }) => sessions.cancel(params.sessionId))
      .onRequest(
        "_demo/echo",
        (params) => params,
        ({ params }) => params,
      );
    if (!this.#canLoad) return app;
    return app
      .onRequest(session.load, async ({ params }) => {
        const reopened = sessions.reopen(params);
        await reopened.replay();
        return this.#opened(reopened);
      })
      .onRequest(session.resume, ({ params }) => this.#opened(sessions.reopen(params)));
  }

  #initialize(params: InitializeRequest): InitializeResponse {
    this.#peer.protocolVersion = params.protocolVersion;
    this.#peer.clientInfo = params.clientInfo ?? null;
    this.#peer.capabilities = params.clientCapabilities ?? {};
    return {
      protocolVersion: this.#habits.has("version2") ? 2 : PROTOCOL_VERSION,
      agentInfo: { name: "demo-agent", title: "Demo Agent", version: "1.0.0" },
      authMethods: [],
      agentCapabilities: {
        loadSession: this.#canLoad,
        promptCapabilities: { image: true, audio: true, embeddedContext: true },
        mcpCapabilities: { http: true, sse: true },
        sessionCapabilities: { list: {}, close: {}, delete: {}, ...(this.#canLoad && { resume: {} }) },
      },
    };
  }

  #create(cwd: string, mcpServers: { name: string }[]) {
    const session = this.#sessions.open(DemoSession.newRecord(cwd), mcpServers);
    if (!this.#habits.has("early-update")) return { sessionId: session.id, ...this.#opened(session) };
    session.send(availableCommands());
    return { sessionId: session.id, ...this.#stateOf(session) };
  }

  /** The state of a session for the response that opens it. The available commands follow the response. */
  #opened(session: DemoSession) {
    // The SDK sends a handler's response within the same turn of the event loop.
    setImmediate(() => session.send(availableCommands()));
    return this.#stateOf(session);
  }

  #stateOf(session: DemoSession) {
    return {
      modes: { currentModeId: session.record.modeId, availableModes: DEMO_MODES },
      configOptions: this.#optionsOf(session),
    };
  }

  #optionsOf({ record }: DemoSession) {
    return configOptions(record.config, Boolean(this.#peer.capabilities.session?.configOptions?.boolean));
  }

  #setMode(sessionId: string, modeId: string): void {
    const session = this.#sessions.find(sessionId);
    if (!DEMO_MODES.some(({ id }) => id === modeId)) throw RequestError.invalidParams({ modeId });
    session.change({ modeId });
    session.send({ sessionUpdate: "current_mode_update", currentModeId: modeId });
  }

  #setConfigOption({ sessionId, configId, value }: SetSessionConfigOptionRequest) {
    const session = this.#sessions.find(sessionId);
    if (!isValidConfig(configId, value)) throw RequestError.invalidParams({ configId, value });
    session.change({ config: { ...session.record.config, [configId]: value } });
    return { configOptions: this.#optionsOf(session) };
  }

  async #prompt(
    { sessionId, prompt }: PromptRequest,
    client: AgentContext,
    requestId: JsonRpcId,
    withdrawn: AbortSignal,
  ): Promise<PromptResponse> {
    const session = this.#sessions.find(sessionId);
    if (session.turn)
      throw RequestError.invalidRequest({ sessionId: session.id }, "a prompt is already running");
    const cancel = new AbortController();
    session.turn = cancel;
    try {
      session.beginPrompt(prompt);
      const signal = AbortSignal.any([cancel.signal, withdrawn]);
      const turn = new DemoTurn({
        session,
        peer: this.#peer,
        client,
        out: this.#out,
        prompt,
        requestId,
        signal,
      });
      return { stopReason: await playPrompt(turn, withdrawn) };
    } finally {
      session.turn = undefined;
    }
  }
}
