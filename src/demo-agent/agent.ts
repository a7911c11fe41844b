import { Readable } from "node:stream";
import {
  agent,
  type InitializeResponse,
  methods,
  ndJsonStream,
  PROTOCOL_VERSION,
  RequestError,
} from "@agentclientprotocol/sdk";
import { availableCommands } from "./commands.ts";
import { type Habit, withUuidIds } from "./misbehave.ts";
import type { Output } from "./output.ts";
import { play } from "./script.ts";
import { Session } from "./session.ts";
import { configOptions, isValidConfig, MODES } from "./settings.ts";
import { type SessionRecord, SessionStore } from "./store.ts";
import { type Peer, Turn } from "./turn.ts";

type Options = { habits: Set<Habit>; stateDirectory: string | undefined };

/** Serves one client. Sessions share the process, and nothing else. */
export function serve(input: Readable, out: Output, { habits, stateDirectory }: Options): void {
  const store = stateDirectory ? new SessionStore(stateDirectory) : undefined;
  const sessions = new Map<string, Session>();
  const peer: Peer = { protocolVersion: PROTOCOL_VERSION, clientInfo: null, capabilities: {} };

  const open = (record: SessionRecord, mcpServers: { name: string }[]): Session => {
    const session = sessions.get(record.sessionId) ?? new Session(record, out, store);
    session.change({ cwd: record.cwd });
    session.mcpServers = mcpServers.map(({ name }) => name);
    sessions.set(session.id, session);
    return session;
  };
  const find = (sessionId: string): Session => {
    const session = sessions.get(sessionId);
    if (!session) throw RequestError.sessionNotFound(sessionId);
    return session;
  };
  const reopen = (params: { sessionId: string; cwd: string; mcpServers?: { name: string }[] }): Session => {
    const record = sessions.get(params.sessionId)?.record ?? store?.find(params.sessionId);
    if (!record) throw RequestError.sessionNotFound(params.sessionId);
    return open({ ...record, cwd: params.cwd }, params.mcpServers ?? []);
  };
  const close = (sessionId: string): void => {
    sessions.get(sessionId)?.turn?.abort();
    sessions.delete(sessionId);
  };

  const optionsOf = ({ record }: Session) =>
    configOptions(record.config, Boolean(peer.capabilities.session?.configOptions?.boolean));
  const stateOf = (session: Session) => ({
    modes: { currentModeId: session.record.modeId, availableModes: MODES },
    configOptions: optionsOf(session),
  });
  // The SDK sends a handler's response within the same turn of the event loop, so this follows it.
  const announceCommands = (session: Session) => setImmediate(() => session.send(availableCommands()));

  const app = agent({ name: "demo-agent" })
    .onRequest(methods.agent.initialize, ({ params }): InitializeResponse => {
      peer.protocolVersion = params.protocolVersion;
      peer.clientInfo = params.clientInfo ?? null;
      peer.capabilities = params.clientCapabilities ?? {};
      return {
        protocolVersion: habits.has("version2") ? 2 : PROTOCOL_VERSION,
        agentInfo: { name: "demo-agent", title: "Demo Agent", version: "1.0.0" },
        authMethods: [],
        agentCapabilities: {
          loadSession: store !== undefined,
          promptCapabilities: { image: true, audio: true, embeddedContext: true },
          mcpCapabilities: { http: true, sse: true },
          sessionCapabilities: { list: {}, close: {}, delete: {}, ...(store && { resume: {} }) },
        },
      };
    })
    .onRequest(methods.agent.session.new, ({ params }) => {
      const session = open(Session.newRecord(params.cwd), params.mcpServers);
      if (habits.has("early-update")) session.send(availableCommands());
      else announceCommands(session);
      return { sessionId: session.id, ...stateOf(session) };
    })
    .onRequest(methods.agent.session.list, ({ params }) => {
      const records = [...(store?.list() ?? []), ...[...sessions.values()].map(({ record }) => record)];
      const byId = new Map(records.map((record) => [record.sessionId, record]));
      return {
        sessions: [...byId.values()]
          .filter(({ cwd }) => !params.cwd || cwd === params.cwd)
          .map(({ sessionId, cwd, title, updatedAt }) => ({ sessionId, cwd, title, updatedAt })),
      };
    })
    .onRequest(methods.agent.session.close, ({ params }) => close(find(params.sessionId).id))
    .onRequest(methods.agent.session.delete, ({ params }) => {
      close(params.sessionId);
      store?.remove(params.sessionId);
    })
    .onRequest(methods.agent.session.setMode, ({ params: { sessionId, modeId } }) => {
      const session = find(sessionId);
      if (!MODES.some(({ id }) => id === modeId)) throw RequestError.invalidParams({ modeId });
      session.change({ modeId });
      session.send({ sessionUpdate: "current_mode_update", currentModeId: modeId });
    })
    .onRequest(methods.agent.session.setConfigOption, ({ params: { sessionId, configId, value } }) => {
      const session = find(sessionId);
      if (!isValidConfig(configId, value)) throw RequestError.invalidParams({ configId, value });
      session.change({ config: { ...session.record.config, [configId]: value } });
      return { configOptions: optionsOf(session) };
    })
    .onRequest(methods.agent.session.prompt, async ({ params, client, requestId, signal }) => {
      const session = find(params.sessionId);
      if (session.turn)
        throw RequestError.invalidRequest({ sessionId: session.id }, "a prompt is already running");
      const cancel = new AbortController();
      session.turn = cancel;
      try {
        session.beginPrompt(params.prompt);
        const turn = new Turn({
          session,
          peer,
          client,
          out,
          prompt: params.prompt,
          requestId,
          signal: AbortSignal.any([cancel.signal, signal]),
        });
        return { stopReason: await play(turn, signal) };
      } finally {
        session.turn = undefined;
      }
    })
    .onNotification(methods.agent.session.cancel, ({ params }) =>
      sessions.get(params.sessionId)?.turn?.abort(),
    )
    .onRequest(
      "_demo/echo",
      (params) => params,
      ({ params }) => params,
    );

  if (store) {
    app.onRequest(methods.agent.session.load, async ({ params }) => {
      const session = reopen(params);
      await session.replay();
      announceCommands(session);
      return stateOf(session);
    });
    app.onRequest(methods.agent.session.resume, ({ params }) => {
      const session = reopen(params);
      announceCommands(session);
      return stateOf(session);
    });
  }

  const stream = ndJsonStream(out.sdkSink(), Readable.toWeb(input) as ReadableStream<Uint8Array>);
  app.connect(habits.has("ids") ? withUuidIds(stream) : stream);
}
