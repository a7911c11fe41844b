import { describe, expect, test } from "vitest";
import { ErrorCode } from "../../../../../src/protocol/errors.ts";
import { mustReadFrame, paramsOf } from "../../../../../src/protocol/frame.ts";
import type { OpeningRules } from "../../../../../src/protocol/opening-rules.ts";
import { broughtBy } from "../../../../../src/session/core/decide/brought-members.ts";
import { clientFrame, open } from "../../../../../src/session/core/decide/client-frames.ts";
import { isFrame, type LogEvent } from "../../../../../src/session/core/events/event.ts";
import { apply } from "../../../../../src/session/core/state/fold.ts";
import { initialState } from "../../../../../src/session/core/state/state.ts";
import {
  callerWith,
  type Json,
  lastMessage,
  message,
  openSession,
  SessionScript,
  startProcess,
} from "../session-script.ts";

const STRICT: OpeningRules = { mcpServers: "http", additionalDirectories: "root", openingMeta: [] };

/** A session that a client opens with these parameters, up to the process that could open it. */
function opened(
  params: string,
  opening: SessionScript["opening"],
): { script: SessionScript; log: LogEvent[] } {
  const script = new SessionScript();
  script.opening = opening;
  const frame = mustReadFrame(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":${params}}`);
  const owner = { tenant: "t", owner: "me", workspace: "w", agent: "codex" };
  script.step((batch) => open(batch, "c1", frame, owner));
  return { script, log: startProcess(script) };
}

const toAgent = (log: LogEvent[]) =>
  log.filter(isFrame).filter(({ direction, frame }) => direction === "out" && frame.method === "session/new");

describe("an opening that the workspace does not allow", () => {
  test.each([
    ["mcpServers", '{"cwd":"/e","mcpServers":[{"name":"x","command":"/bin/sh","args":[],"env":[]}]}'],
    ["additionalDirectories", '{"cwd":"/e","mcpServers":[],"additionalDirectories":["/root"]}'],
  ])("never reaches the agent: the client hears that %s says so, and the process ends", (setting, params) => {
    const { script, log } = opened(params, STRICT);
    expect(toAgent(log)).toEqual([]);
    expect(log.map(({ kind }) => kind)).toContain("runtime.opening_refused");
    const [answer] = log
      .filter(isFrame)
      .filter(({ frame }) => frame.kind === "response" && frame.idText === '"n"');
    expect(answer?.frame.value.error).toMatchObject({ code: ErrorCode.forbidden, data: { setting } });
    expect(script.state).toMatchObject({ agent: "gone", run: { stopping: true } });
    expect(script.state.awaitingAgent).toEqual({});
    expect(toAgent(opened(params, { ...STRICT, [setting]: "all" }).log)).toHaveLength(1);
  });
});

describe("an opening that the workspace allows in part", () => {
  test("is made anew, so that no repeated member gets through", () => {
    const servers = '"mcpServers":[{"name":"x","command":"/bin/sh","args":[],"env":[]}]';
    const { log } = opened(`{"cwd":"/e",${servers},"mcpServers":[],"_meta":{"k":1},"_meta":{"k":2}}`, STRICT);
    const [request] = toAgent(log);
    expect(request?.frame.raw).not.toContain("/bin/sh");
    expect(request && paramsOf(request.frame)).toEqual({ cwd: "/host/root", mcpServers: [] });
  });

  test("tells clients which keys the agent did not get", () => {
    const { script, log } = opened('{"cwd":"/e","mcpServers":[],"_meta":{"claudeCode":{}}}', STRICT);
    const [request] = toAgent(log);
    const events = script.item(
      JSON.stringify({ jsonrpc: "2.0", id: request?.seq, result: { sessionId: "a" } }),
    );
    const notices = events.filter(isFrame).filter(({ source }) => source === "gateway");
    expect(notices.map(({ frame }) => frame.raw).join()).toContain("_meta.claudeCode");
  });
});

test("an opening in a workspace that allows everything keeps the client's text", () => {
  const params = '{ "cwd":"/e", "mcpServers":[],"x":1.0,"_meta":{"k":1e2}}';
  const [request] = toAgent(
    opened(params, { mcpServers: "all", additionalDirectories: "all", openingMeta: "all" }).log,
  );
  expect(request?.frame.raw).toContain('"x":1.0,"_meta":{"k":1e2}');
});

describe("a client that loads the session with MCP servers or directories", () => {
  const RESUMES = { sessionCapabilities: { resume: {} } };
  const server = (url: string) => ({ type: "http", name: "x", url, headers: [] });

  /** A load with these members, taken as the session's object takes it. */
  function load(script: SessionScript, params: Json): LogEvent[] {
    const { sessionId } = script.state;
    const frame = mustReadFrame(
      message({ id: 9, method: "session/load", params: { sessionId, cwd: "/e", ...params } }),
    );
    const caller = callerWith();
    return script.step((batch) => {
      const brings = broughtBy(batch, frame, (raw) => mustReadFrame(raw));
      clientFrame(
        batch,
        { connection: "c2", caller, answering: [], abilities: [], brings },
        frame,
        () => "turn",
      );
    });
  }

  /** The parameters of the next process. */
  function next(script: SessionScript): Json {
    script.exit();
    script.prompt("go");
    return lastMessage(startProcess(script, `run-${script.log.length}`, RESUMES)).params as Json;
  }

  test("has them in the next process, and is told so while a process runs", () => {
    const script = openSession({}, { capabilities: RESUMES });
    const mcpServers = [server("http://localhost:1")];
    const events = load(script, { mcpServers, additionalDirectories: ["/e/lib", "/opt"] });
    expect(lastMessage(events).result).toEqual({
      _meta: { "acp-edge/opening": { mcpServers: "next process", additionalDirectories: "next process" } },
    });
    expect(next(script)).toMatchObject({ mcpServers, additionalDirectories: ["/host/root/lib", "/opt"] });
    const newer = [server("http://localhost:2")];
    script.exit();
    // Without a process there is nothing to tell.
    expect(lastMessage(load(script, { mcpServers: newer })).result).toEqual({});
    expect(next(script)).toMatchObject({
      mcpServers: newer,
      additionalDirectories: ["/host/root/lib", "/opt"],
    });
  });

  test("takes none away by having none, and changes nothing by bringing the same", () => {
    const script = openSession({}, { capabilities: RESUMES });
    const mcpServers = [server("http://localhost:1")];
    load(script, { mcpServers });
    const { brought } = script.state;
    expect(lastMessage(load(script, { mcpServers })).result).toEqual({});
    expect(lastMessage(load(script, { mcpServers: [] })).result).toEqual({});
    expect(script.state.brought).toEqual(brought);
    expect(next(script)).toMatchObject({ mcpServers });
  });

  test("is told what the workspace does not allow, and the session goes on without it", () => {
    const mcpServers = [{ name: "x", command: "/bin/sh", args: [], env: [] }];
    const { script, log } = opened('{"cwd":"/e","mcpServers":[]}', STRICT);
    script.answer(toAgent(log)[0]?.seq ?? 0, { sessionId: "agent-session" });
    const { _meta } = lastMessage(load(script, { mcpServers })).result as { _meta: Json };
    expect(_meta["acp-edge/opening"]).toEqual({ mcpServers: expect.stringContaining("no commands") });
    expect(script.state.brought).toBeUndefined();
    script.exit();
    // Without a process the rules are not known.
    load(script, { mcpServers });
    expect(script.state.brought).toBeDefined();
    script.prompt("go");
    const events = startProcess(script, "run-2");
    expect(JSON.stringify(events.filter(isFrame).map(({ frame }) => frame.raw))).toContain(
      "session.opening_refused",
    );
    expect(lastMessage(events).params).toEqual({ cwd: "/host/root", mcpServers: [] });
  });

  describe("of which the workspace allows one", () => {
    const mcpServers = [server("https://example.com/mcp")];
    const given = { mcpServers, additionalDirectories: ["/etc"] };

    function strictSession(): SessionScript {
      const { script, log } = opened('{"cwd":"/e","mcpServers":[]}', STRICT);
      script.answer(toAgent(log)[0]?.seq ?? 0, { sessionId: "agent-session" });
      return script;
    }

    const notices = (events: LogEvent[]) =>
      events
        .filter(isFrame)
        .map(({ frame }) => frame.raw)
        .filter((raw) => raw.includes("session.opening_refused"));

    test("is told of each by itself while a process runs, and the next process has the allowed one", () => {
      const script = strictSession();
      const { _meta } = lastMessage(load(script, given)).result as { _meta: Json };
      expect(_meta["acp-edge/opening"]).toEqual({
        mcpServers: "next process",
        additionalDirectories: expect.stringContaining("setting additionalDirectories"),
      });
      expect(Object.keys(script.state.brought ?? {})).toEqual(["mcpServers"]);
      expect(next(script)).toEqual({ cwd: "/host/root", sessionId: "agent-session", mcpServers });
    });

    test("has the allowed one in the next process, and all are told of the other one once", () => {
      const script = strictSession();
      script.exit();
      expect(lastMessage(load(script, given)).result).toEqual({});
      script.prompt("go");
      const events = startProcess(script, "run-2", RESUMES);
      expect(lastMessage(events).params).toMatchObject({ mcpServers });
      expect(lastMessage(events).params).not.toHaveProperty("additionalDirectories");
      expect(notices(events)).toEqual([expect.stringContaining("setting additionalDirectories")]);
      expect(Object.keys(script.state.brought ?? {})).toEqual(["mcpServers"]);
      script.exit();
      script.prompt("again");
      const later = startProcess(script, "run-3", RESUMES);
      expect(notices(later)).toEqual([]);
      expect(lastMessage(later).params).toMatchObject({ mcpServers });
    });

    test("[I4] leaves a state that is a fold of the log", () => {
      const script = strictSession();
      script.exit();
      load(script, { ...given, mcpServers: [{ name: "x", command: "/bin/sh", args: [], env: [] }] });
      script.prompt("go");
      expect(notices(startProcess(script, "run-2", RESUMES))).toHaveLength(2);
      expect(script.state.brought).toBeUndefined();
      const folded = initialState(script.state.sessionId);
      for (const event of script.log) apply(folded, event);
      expect(folded).toEqual(script.state);
    });
  });
});
