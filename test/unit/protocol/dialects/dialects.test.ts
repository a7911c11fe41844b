import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type DialectName,
  readOffer,
  translate,
  translateBack,
  translateOpening,
} from "../../../../src/protocol/dialects/index.ts";
import { type Frame, isFault, readFrame } from "../../../../src/protocol/frame.ts";
import * as seed000 from "../../../fixtures/dialects/container-data-model.ts";
import * as seed003 from "../../../fixtures/dialects/local-mcp-servers.ts";
import * as seed002 from "../../../fixtures/dialects/web-gateway.ts";

type Json = Record<string, unknown>;

const json = (text: string) => JSON.parse(text) as Json;
const paramsOf = (text: string) => json(text).params as Json;

function frame(raw: string): Frame {
  const read = readFrame(raw);
  if (isFault(read)) throw new Error(`not a frame: ${read.fault}`);
  return read;
}

/** What the session gets for a client's frame. */
function forwarded(name: DialectName, raw: string): Json {
  const translation = translate(name, frame(raw));
  if (!("frame" in translation)) throw new Error(JSON.stringify(translation));
  return json(translation.frame.raw);
}

/** What the session gets for a canonical client's session/new. */
function opened(raw: string): Json {
  const translation = translateOpening(frame(raw));
  if (!("frame" in translation)) throw new Error(JSON.stringify(translation));
  return json(translation.frame.raw);
}

function request(method: string, params: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
}

/** What a client of the dialect gets for an agent's update. */
function updated(name: DialectName, update: Json, sessionId = "session-abc123"): Json {
  const raw = JSON.stringify({ jsonrpc: "2.0", method: "session/update", params: { sessionId, update } });
  const [message, ...more] = translateBack(name, raw, sessionId);
  expect(more).toEqual([]);
  return json(message as string);
}

describe("detection", () => {
  it.each<[unknown, DialectName | null]>([
    [paramsOf(seed000.initialize), "seed-000"],
    [paramsOf(seed002.initialize), "seed-002"],
    [paramsOf(seed003.initialize), null],
    [{ protocolVersion: 1 }, null],
    [{ protocolVersion: 1, clientCapabilities: {} }, null],
    [{ protocolVersion: 1, capabilities: {} }, "seed-002"],
    [{ protocolVersion: 1, capabilities: {}, clientCapabilities: {} }, null],
    [{ protocolVersion: 2, capabilities: {} }, null],
    [{ protocolVersion: 1, clientCapabilities: { filesRead: false } }, "seed-000"],
    [{ protocolVersion: "1" }, "seed-002"],
    [{ protocolVersion: "1", clientCapabilities: { editWorkspace: true } }, "seed-000"],
    [{ protocolVersion: "0.3.1" }, "seed-000"],
    [{ protocolVersion: "0.9", capabilities: { fs: {} } }, "seed-002"],
    // Refused later on, as any version that is no integer.
    [{ protocolVersion: "2", capabilities: {} }, null],
    [{ protocolVersion: "1.0" }, null],
    [{ protocolVersion: "latest" }, null],
    [{ protocolVersion: 1.5, capabilities: {} }, null],
    [{ capabilities: {} }, null],
    [null, null],
    [[], null],
  ])("%j is %s", (params, name) => {
    expect(readOffer(params).dialect).toBe(name);
  });
});

describe("initialize", () => {
  const canonical = {
    protocolVersion: 1,
    agentInfo: { name: "Claude Code", version: "1.0.0" },
    agentCapabilities: { loadSession: true, modes: ["ask", "code", "architect"] },
    authMethods: [],
  };

  it("of seed 002 as printed, both ways", () => {
    const offered = paramsOf(seed002.initialize);
    expect(readOffer(offered).offer).toEqual({
      protocolVersion: 1,
      clientInfo: { name: "SAM Web Client", version: "1.0.0" },
      clientCapabilities: { terminal: true, fs: { readTextFile: true, writeTextFile: true } },
    });
    const answer = readOffer(offered).answered(canonical);
    expect(answer).toMatchObject(json(seed002.initializeResult).result as object);
    expect(answer).toMatchObject({ agentCapabilities: canonical.agentCapabilities, authMethods: [] });
  });

  it("of seed 002 echoes the version in the type it came in", () => {
    for (const protocolVersion of ["1", "0.9", 1])
      expect(readOffer({ protocolVersion, capabilities: {} }).answered(canonical)).toMatchObject({
        protocolVersion,
      });
  });

  it("of seed 000 as printed, both ways", () => {
    const offered = paramsOf(seed000.initialize);
    expect(readOffer(offered).offer).toEqual({
      protocolVersion: 1,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
    });
    const agentInfo = { name: "Claude Code Container", version: "1.0.0" };
    const answer = readOffer(offered).answered({ ...canonical, agentInfo });
    expect(answer).toMatchObject(json(seed000.initializeResult).result as object);
    expect(answer).toMatchObject({ agentCapabilities: { loadSession: true, githubIntegration: false } });
  });

  it("of seed 000 believes an agent that says otherwise", () => {
    const agentCapabilities = { githubIntegration: true, editWorkspace: false };
    expect(readOffer({ protocolVersion: "0.1" }).answered({ agentCapabilities })).toMatchObject({
      agentCapabilities: { githubIntegration: true, editWorkspace: false, filesRead: true },
    });
  });

  it("of seed 000 offers the files it names", () => {
    const fs = (clientCapabilities: object) =>
      (readOffer({ protocolVersion: "0.1", clientCapabilities }).offer as Json).clientCapabilities;
    expect(fs({ filesRead: true })).toEqual({ fs: { readTextFile: true, writeTextFile: false } });
    expect(fs({ editWorkspace: true, terminal: true })).toEqual({
      terminal: true,
      fs: { readTextFile: false, writeTextFile: true },
    });
  });
});

describe("session/new", () => {
  it("of seed 002 as printed", () => {
    expect(forwarded("seed-002", seed002.newSession)).toEqual({
      ...json(seed002.newSession),
      params: { cwd: "/workspace", mcpServers: [] },
    });
  });

  it("of seed 000 as printed", () => {
    expect(forwarded("seed-000", seed000.newSession)).toEqual({
      ...json(seed000.newSession),
      params: { cwd: "/path/to/repo", mcpServers: [], _meta: { "acp-edge/mode": "development" } },
    });
  });

  it("keeps what it does not know, and the id as it was written", () => {
    const raw =
      '{"jsonrpc":"2.0","id":12345678901234567890,"method":"session/new","params":{"x":[1],"_meta":{"a":1}},"y":2}';
    const translation = translate("seed-000", frame(raw));
    expect("frame" in translation && translation.frame.raw).toBe(
      '{"jsonrpc":"2.0","id":12345678901234567890,"method":"session/new","params":{"x":[1],"_meta":{"a":1},"cwd":"/","mcpServers":[]},"y":2}',
    );
  });

  it.each([
    ["file:///a%20b/c", "/a b/c"],
    ["file://localhost/a", "/a"],
    ["FILE:///a", "/a"],
  ])("workspaceUri %s is %s", (workspaceUri, cwd) => {
    expect(forwarded("seed-000", request("session/new", { workspaceUri })).params).toMatchObject({ cwd });
  });

  it.each([
    { workspaceUri: "/path" },
    { workspaceUri: "https://example.org/path" },
    { workspaceUri: "file:relative" },
    { workspaceUri: "file://elsewhere/path" },
    { workspaceUri: "file:///a%zz" },
    { workspaceUri: "file:///a%00b" },
    { workspaceUri: "file:///a?b" },
    { workspaceUri: "" },
    { workspaceUri: 7 },
    { mode: "architect" },
    { mode: 1 },
    { mcpServers: [{ type: "local", name: "x", command: [] }] },
    { mcpServers: [{ type: "local", name: "x" }] },
    { mcpServers: [{ type: "local", name: "x", command: ["a"], args: "b" }] },
  ])("%j is refused", (params) => {
    expect(translate("seed-000", frame(request("session/new", params)))).toMatchObject({
      refuse: { code: -32602 },
    });
  });

  it("a directory named as canonical ACP does it wins", () => {
    const params = { cwd: "/c", workspaceUri: "file:///w" };
    expect(forwarded("seed-002", request("session/new", params)).params).toEqual({
      cwd: "/c",
      mcpServers: [],
    });
  });
});

describe("MCP servers of seed 003", () => {
  it("as printed, for a client that is canonical otherwise", () => {
    expect(opened(seed003.newSession)).toEqual({
      jsonrpc: "2.0",
      id: 2,
      method: "session/new",
      params: {
        cwd: "/path/to/project",
        mcpServers: [{ name: "weather", command: "bun", args: ["x", "@h1deya/mcp-server-weather"], env: [] }],
      },
    });
  });

  it("with arguments, variables and a command of one word", () => {
    const mcpServers = [
      { type: "local", command: "serve", args: ["-x"], env: { A: "1", B: 2 }, _meta: { k: 1 } },
      { type: "http", name: "h", url: "https://h", headers: [] },
    ];
    expect(
      forwarded("seed-002", request("session/load", { sessionId: "s", cwd: "/", mcpServers })).params,
    ).toEqual({
      sessionId: "s",
      cwd: "/",
      mcpServers: [
        {
          name: "serve",
          command: "serve",
          args: ["-x"],
          env: [
            { name: "A", value: "1" },
            { name: "B", value: "2" },
          ],
          _meta: { k: 1 },
        },
        mcpServers[1],
      ],
    });
  });

  it("leave the text of any other session/new alone", () => {
    for (const mcpServers of ["[]", '[ {"name":"n","command":"c","args":[],"env":[]} ]', "null", "7"]) {
      const raw = `{"jsonrpc":"2.0", "id":1.0,"method":"session/new","params":{"cwd":"/","mcpServers":${mcpServers}}}`;
      const original = frame(raw);
      expect(translateOpening(original)).toEqual({ frame: original });
    }
  });

  it("that name no program are refused", () => {
    const raw = request("session/new", { cwd: "/", mcpServers: [{ type: "local", command: [1] }] });
    expect(translateOpening(frame(raw))).toMatchObject({ refuse: { code: -32602 } });
  });
});

describe("session/prompt", () => {
  it("of seed 002 as printed", () => {
    expect(forwarded("seed-002", seed002.prompt)).toEqual({
      jsonrpc: "2.0",
      id: 3,
      method: "session/prompt",
      params: {
        sessionId: "session-abc123",
        prompt: [{ type: "text", text: "Read the README and summarize it" }],
      },
    });
  });

  it("of seed 000 as printed", () => {
    expect(forwarded("seed-000", seed000.prompt).params).toEqual({
      sessionId: "session-abc123",
      prompt: [
        { type: "text", text: "What does this do?" },
        {
          type: "image",
          data: "iVBORw0KGgoAAAANSUhEUg==",
          mimeType: "image/png",
          _meta: { "acp-edge/metadata": { mimeType: "image/png" } },
        },
        {
          type: "resource",
          resource: { uri: "file:///path/to/repo/a.txt", mimeType: "text/x-diff", text: "-a\n+b\n" },
          _meta: { "acp-edge/metadata": { path: "/path/to/repo/a.txt" }, "acp-edge/type": "diff" },
        },
        { type: "resource_link", uri: "file:///path/to/repo/b.txt", name: "b.txt" },
        { type: "text", text: "perhaps it is old", _meta: { "acp-edge/type": "thought" } },
        { type: "resource_link", uri: "file:///path/to/repo/README.md", name: "README.md" },
        { type: "resource_link", uri: "src/main.ts", name: "main.ts" },
      ],
    });
  });

  it.each([
    [{ prompt: [{ type: "text", text: "a" }] }, [{ type: "text", text: "a" }]],
    [{ prompt: "a" }, [{ type: "text", text: "a" }]],
    [{ message: { content: "a" } }, [{ type: "text", text: "a" }]],
    [{ message: "a" }, [{ type: "text", text: "a" }]],
    [{ content: "a" }, [{ type: "text", text: "a" }]],
    [{ content: [{ type: "text", text: "a" }], prompt: [] }, []],
  ])("%j says %j", (params, prompt) => {
    for (const name of ["seed-000", "seed-002"] as const)
      expect(forwarded(name, request("session/prompt", params)).params).toMatchObject({ prompt });
  });

  it("keeps what it does not know", () => {
    const message = { role: "user", content: "a", id: "m1" };
    const params = { sessionId: "s", message, _meta: { k: 1 }, x: 2 };
    expect(forwarded("seed-002", request("session/prompt", params)).params).toEqual({
      sessionId: "s",
      prompt: [{ type: "text", text: "a" }],
      _meta: { k: 1, "acp-edge/message": { id: "m1" } },
      x: 2,
    });
    const block = { type: "future", anything: 1 };
    expect(forwarded("seed-002", request("session/prompt", { prompt: [block] })).params).toEqual({
      prompt: [block],
    });
  });

  it.each([
    [
      { type: "image", content: "data:image/gif;base64,R0lG" },
      { type: "image", data: "R0lG", mimeType: "image/gif" },
    ],
    [{ type: "image", content: "/9j/4AAQ" }, { mimeType: "image/jpeg" }],
    [
      { type: "file", content: "hi", metadata: { path: "a b.txt", mimeType: "text/plain" } },
      { type: "resource", resource: { uri: "a%20b.txt", mimeType: "text/plain", text: "hi" } },
    ],
    [
      { type: "file", content: "aGk=", metadata: { uri: "file:///x", encoding: "base64" } },
      { type: "resource", resource: { uri: "file:///x", blob: "aGk=" } },
    ],
    [
      { type: "file", content: "https://example.org/x", metadata: { name: "X", mimeType: "text/html" } },
      { type: "resource_link", uri: "https://example.org/x", name: "X", mimeType: "text/html" },
    ],
    [{ type: "diff", content: "-a" }, { resource: { uri: "urn:acp-edge:diff", text: "-a" } }],
    [
      { type: "resource_link", uri: "file:///x", name: "x" },
      { type: "resource_link", uri: "file:///x", name: "x" },
    ],
  ])("block %j of seed 000 is %j", (block, canonical) => {
    const { params } = forwarded("seed-000", request("session/prompt", { content: [block] }));
    expect((params as { prompt: unknown[] }).prompt[0]).toMatchObject(canonical);
  });

  it.each([
    {},
    { prompt: 7 },
    { content: {} },
    { message: { role: "assistant", content: "a" } },
    { message: { role: "user" } },
    { content: "a", contextFiles: "b" },
    { content: "a", contextFiles: [1] },
    { content: [{ type: "video", content: "a" }] },
    { content: [{ type: "text" }] },
    { content: [{ type: "text", content: 1 }] },
    { content: [{ content: "a" }] },
    { content: ["a"] },
    { content: [{ type: "image", content: "????" }] },
  ])("%j is refused", (params) => {
    expect(translate("seed-000", frame(request("session/prompt", params)))).toMatchObject({
      refuse: { code: -32602 },
    });
  });
});

describe("other frames of a client", () => {
  it("set_mode of seed 002 as printed", () => {
    expect(forwarded("seed-002", seed002.setMode)).toEqual({
      jsonrpc: "2.0",
      id: 5,
      method: "session/set_mode",
      params: { sessionId: "session-abc123", modeId: "code" },
    });
  });

  it("respond_to_permission of seed 002 as printed", () => {
    expect(translate("seed-002", frame(seed002.respondToPermission))).toEqual({
      permission: { requestId: "perm-xyz789", kind: "allow_once" },
    });
  });

  it.each([
    {},
    { requestId: "a" },
    { requestId: 1, response: "allow_once" },
    { requestId: "a", response: "allow" },
  ])("respond_to_permission %j is refused", (params) => {
    expect(translate("seed-002", frame(request("session/respond_to_permission", params)))).toMatchObject({
      refuse: { code: -32602 },
    });
  });

  it.each([
    seed002.cancel,
    seed003.permissionResponse,
    '{"jsonrpc":"2.0", "id":1.0,"method":"_vendor/x","params":{"big":12345678901234567890}}',
  ])("what is canonical keeps its text: %s", (raw) => {
    for (const name of ["seed-000", "seed-002"] as const) {
      const translation = translate(name, frame(raw));
      expect("frame" in translation && translation.frame.raw).toBe(raw);
    }
  });
});

describe("updates for seed 002", () => {
  const text = (words: string) => ({ type: "text", text: words });

  it.each<[string, Json, string]>([
    [
      "a message chunk",
      { sessionUpdate: "agent_message_chunk", content: text("Let me read the README file...") },
      seed002.messageChunk,
    ],
    [
      "a thought chunk",
      { sessionUpdate: "agent_thought_chunk", content: text("I should look at the README.md file first...") },
      seed002.thoughtChunk,
    ],
    [
      "a tool call",
      {
        sessionUpdate: "tool_call",
        toolCallId: "tc-001",
        title: "read_file",
        rawInput: { path: "/workspace/README.md" },
      },
      seed002.toolCall,
    ],
    [
      "a tool's result",
      {
        sessionUpdate: "tool_call_update",
        toolCallId: "tc-001",
        status: "completed",
        content: [{ type: "content", content: text("# Simple Agent Manager\n\nA serverless platform...") }],
      },
      seed002.toolCallUpdate,
    ],
  ])("%s as printed", (_, update, printed) => {
    expect(updated("seed-002", update)).toEqual(json(printed));
  });

  it("move a tool's kind to _meta and keep the rest", () => {
    const diff = { type: "diff", path: "a", newText: "b" };
    const update = {
      sessionUpdate: "tool_call",
      toolCallId: "t",
      name: "write",
      title: "Write a",
      kind: "edit",
      status: "pending",
      content: [diff],
      locations: [{ path: "a" }],
      _meta: { k: 1 },
    };
    expect(updated("seed-002", update).params).toMatchObject({
      update: {
        kind: "tool_call",
        toolCallId: "t",
        name: "write",
        title: "Write a",
        input: {},
        status: "pending",
        output: [diff],
        locations: [{ path: "a" }],
        _meta: { k: 1, "acp-edge/kind": "edit" },
      },
    });
  });

  it("of any other sort have their name as kind", () => {
    const entries = [{ content: "a", priority: "high", status: "pending" }];
    expect(updated("seed-002", { sessionUpdate: "plan", entries }).params).toMatchObject({
      update: { kind: "plan", entries },
    });
    expect(updated("seed-002", { sessionUpdate: "future", content: [1], x: 2 }).params).toMatchObject({
      update: { kind: "future", content: [1], x: 2 },
    });
  });

  it("a permission request as printed, beside the canonical one", () => {
    const printed = json(seed002.permissionRequest);
    const { toolName, description, input } = printed.params as Json;
    const params = {
      sessionId: "s",
      toolCall: { toolCallId: "t", name: toolName, title: description, kind: "edit", rawInput: input },
      options: [{ optionId: "once", kind: "allow_once", name: "Allow" }],
    };
    const raw = JSON.stringify({ ...printed, id: "perm-xyz789", params });
    const [message] = translateBack("seed-002", raw, "s");
    expect(json(message as string)).toMatchObject({ ...printed, id: "perm-xyz789" });
    expect(paramsOf(message as string)).toMatchObject(params);
  });

  it("everything else keeps its text", () => {
    for (const raw of [seed002.promptResponse, seed003.error, '{"method":"_x","params":{"n":1.0}}'])
      expect(translateBack("seed-002", raw, "s")).toEqual([raw]);
  });
});

describe("updates for seed 000", () => {
  const text = (words: string) => ({ type: "text", text: words });

  it("thinking and working as printed", () => {
    expect(
      updated("seed-000", { sessionUpdate: "agent_thought_chunk", content: text("Let me see") }),
    ).toEqual(json(seed000.thinking));
    expect(
      updated("seed-000", { sessionUpdate: "agent_message_chunk", content: text("It says hello.") }),
    ).toEqual(json(seed000.working));
  });

  it("completed as printed, before the prompt's response", () => {
    const [completed, response] = translateBack("seed-000", seed002.promptResponse, "session-abc123");
    expect(json(completed as string)).toEqual(json(seed000.completed));
    expect(response).toBe(seed002.promptResponse);
  });

  it("error, before the error itself", () => {
    const [failed, response] = translateBack("seed-000", seed003.error, "s");
    expect(json(failed as string)).toEqual({
      jsonrpc: "2.0",
      method: "session/update",
      params: {
        sessionId: "s",
        content: [
          {
            type: "text",
            content: "Invalid Request",
            metadata: { code: -32600, data: { details: "Session not found" } },
          },
        ],
        status: "error",
      },
    });
    expect(response).toBe(seed003.error);
  });

  it("any other response has no status", () => {
    expect(translateBack("seed-000", seed003.newSessionResult, "s")).toEqual([seed003.newSessionResult]);
  });

  it.each<[Json, Json]>([
    [
      { type: "text", text: "a", annotations: { priority: 1 }, _meta: { k: 1 } },
      { type: "text", content: "a", metadata: { annotations: { priority: 1 }, _meta: { k: 1 } } },
    ],
    [
      { type: "image", data: "AAAA", mimeType: "image/png" },
      { type: "image", content: "AAAA", metadata: { mimeType: "image/png" } },
    ],
    [
      { type: "audio", data: "AAAA", mimeType: "audio/wav" },
      {
        type: "file",
        content: "AAAA",
        metadata: { type: "audio", encoding: "base64", mimeType: "audio/wav" },
      },
    ],
    [
      { type: "resource_link", uri: "file:///a", name: "a" },
      { type: "file", content: "file:///a", metadata: { name: "a" } },
    ],
    [
      { type: "resource", resource: { uri: "file:///a", text: "t", mimeType: "text/plain" } },
      { type: "file", content: "t", metadata: { uri: "file:///a", mimeType: "text/plain" } },
    ],
    [
      { type: "resource", resource: { uri: "file:///a", blob: "AAAA" } },
      { type: "file", content: "AAAA", metadata: { uri: "file:///a", encoding: "base64" } },
    ],
    [
      { type: "future", x: 1 },
      { type: "text", content: "", metadata: { type: "future", x: 1 } },
    ],
  ])("block %j becomes %j", (content, block) => {
    expect(updated("seed-000", { sessionUpdate: "agent_message_chunk", content }).params).toMatchObject({
      content: [block],
    });
  });

  it("a prompt of this dialect comes back to it as it was", () => {
    const { prompt } = forwarded("seed-000", seed000.prompt).params as { prompt: Json[] };
    const back = prompt.slice(0, 5).map((content) => {
      const { params } = updated("seed-000", { sessionUpdate: "user_message_chunk", content });
      return (params as { content: Json[] }).content[0];
    });
    expect(back).toMatchObject([
      { type: "text", content: "What does this do?", metadata: { role: "user" } },
      { type: "image", content: "iVBORw0KGgoAAAANSUhEUg==", metadata: { mimeType: "image/png" } },
      { type: "diff", content: "-a\n+b\n", metadata: { path: "/path/to/repo/a.txt" } },
      { type: "file", content: "file:///path/to/repo/b.txt" },
      { type: "thought", content: "perhaps it is old" },
    ]);
  });

  it("a tool call is a line of text and what it has to show", () => {
    const update = (paramsOf(seed003.toolCallUpdate) as { update: Json }).update;
    const titled = { ...update, title: "Write fibonacci function", kind: "edit" };
    const { params } = updated("seed-000", titled);
    expect(params).toMatchObject({
      status: "working",
      content: [
        {
          type: "text",
          content: "Write fibonacci function",
          metadata: {
            sessionUpdate: "tool_call_update",
            toolCallId: "tool-123",
            status: "completed",
            kind: "edit",
          },
        },
        { type: "diff", metadata: { toolCallId: "tool-123", path: "fibonacci.js", oldText: "" } },
      ],
    });
    expect((params as { content: Json[] }).content[1]?.content).toBe(
      "--- /dev/null\n+++ b/fibonacci.js\n@@ -0,0 +1,4 @@\n+function fibonacci(n) {\n+  if (n <= 1) return n;\n" +
        "+  return fibonacci(n - 1) + fibonacci(n - 2);\n+}\n\\ No newline at end of file\n",
    );
  });

  it("a terminal and a plan", () => {
    const terminal = { type: "terminal", terminalId: "t1" };
    expect(
      updated("seed-000", { sessionUpdate: "tool_call", toolCallId: "t", title: "Run", content: [terminal] })
        .params,
    ).toMatchObject({
      content: [{ content: "Run" }, { type: "text", metadata: { ...terminal, toolCallId: "t" } }],
    });
    const entries = [
      { content: "a", priority: "high", status: "completed" },
      { content: "b", priority: "low", status: "pending" },
    ];
    expect(updated("seed-000", { sessionUpdate: "plan", entries }).params).toMatchObject({
      content: [{ type: "text", content: "[x] a\n[ ] b", metadata: { sessionUpdate: "plan", entries } }],
      status: "working",
    });
  });

  it("an update that is no progress goes by another name, so that nobody takes it for work", () => {
    const update = { sessionUpdate: "session_info_update", title: "T" };
    expect(updated("seed-000", update)).toEqual({
      jsonrpc: "2.0",
      method: "_session/update",
      params: { sessionId: "session-abc123", update },
    });
  });
});

describe("diffs for seed 000", () => {
  const diff = (oldText: string | null, newText: string) => {
    const content = [{ type: "diff", path: "/w/a", oldText, newText }];
    const { params } = updated("seed-000", { sessionUpdate: "tool_call_update", toolCallId: "t", content });
    return (params as { content: Json[] }).content[1]?.content;
  };

  it.each([
    [null, "a\n", "--- /dev/null\n+++ b/w/a\n@@ -0,0 +1,1 @@\n+a\n"],
    ["a\n", "", "--- a/w/a\n+++ b/w/a\n@@ -1,1 +0,0 @@\n-a\n"],
    ["a\nb\nc\n", "a\nx\nc\n", "--- a/w/a\n+++ b/w/a\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"],
    [
      "1\n2\n3\n4\n5\n6\n",
      "1\n2\n3\n4\n5\n6\n7\n",
      "--- a/w/a\n+++ b/w/a\n@@ -4,3 +4,4 @@\n 4\n 5\n 6\n+7\n",
    ],
    ["a", "a\n", "--- a/w/a\n+++ b/w/a\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"],
    ["same\n", "same\n", ""],
  ])("%j to %j", (before, after, text) => {
    expect(diff(before, after)).toBe(text);
  });
});

describe("whatever comes", () => {
  const names = fc.constantFrom<DialectName>("seed-000", "seed-002");
  const anything = fc.jsonValue({ maxDepth: 4, stringUnit: "binary" });
  const members = (keys: string[]) =>
    fc.oneof(anything, fc.dictionary(fc.constantFrom(...keys), anything, { noNullPrototype: true }));
  const block = members([
    "type",
    "content",
    "metadata",
    "text",
    "uri",
    "_meta",
    "resource",
    "path",
    "newText",
  ]);
  const blocks = fc.oneof(block, fc.array(block));

  it("a client's message is translated or refused, and its id stays", () => {
    const methods = fc.constantFrom(
      ...[
        "session/new",
        "session/load",
        "session/prompt",
        "session/set_mode",
        "session/respond_to_permission",
        "_x",
      ],
    );
    const params = fc.oneof(
      members([
        "cwd",
        "workspaceUri",
        "mode",
        "mcpServers",
        "prompt",
        "message",
        "content",
        "contextFiles",
        "_meta",
      ]),
      fc.record(
        { content: blocks, contextFiles: fc.array(fc.string({ unit: "binary" })) },
        { requiredKeys: [] },
      ),
      fc.record({ content: fc.constant("a"), contextFiles: fc.constant(["/\ud800"]) }),
      fc.record({ mcpServers: fc.array(members(["type", "name", "command", "args", "env"])) }),
      fc.record({ requestId: fc.string(), response: fc.constantFrom("allow_once", "allow_always", "no") }),
    );
    fc.assert(
      fc.property(
        names,
        methods,
        params,
        fc.constantFrom("1.0", '"a"', "12345678901234567890"),
        (name, method, p, id) => {
          const raw = `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${JSON.stringify(p)}}`;
          const said = translate(name, frame(raw));
          if ("refuse" in said) expect(said.refuse.code).toBe(-32602);
          else if ("frame" in said) expect(said.frame).toMatchObject({ idText: id, method, kind: "request" });
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("an agent's message becomes messages, of this session", () => {
    const sorts = [
      "agent_message_chunk",
      "agent_thought_chunk",
      "user_message_chunk",
      "tool_call",
      "tool_call_update",
      "plan",
    ];
    const update = fc.record(
      {
        sessionUpdate: fc.constantFrom(...sorts, "other"),
        content: blocks,
        title: anything,
        kind: anything,
        entries: blocks,
        _meta: anything,
      },
      { requiredKeys: ["sessionUpdate"] },
    );
    const message = fc.oneof(
      fc.record({
        method: fc.constant("session/update"),
        params: fc.record({ sessionId: fc.constant("s"), update }),
      }),
      fc.record({
        method: fc.constantFrom("session/update", "session/request_permission", "_x"),
        params: anything,
      }),
      fc.record({ id: fc.nat(), error: members(["code", "message", "data"]) }),
      fc.record({ id: fc.nat(), result: members(["stopReason", "sessionId"]) }),
    );
    fc.assert(
      fc.property(names, message, (name, content) => {
        const raw = JSON.stringify({ jsonrpc: "2.0", ...content });
        const said = translateBack(name, raw, "s");
        expect(said.length).toBeGreaterThan(0);
        for (const one of said) expect(isFault(readFrame(one))).toBe(false);
        if (!("method" in content)) expect(said.at(-1)).toBe(raw);
      }),
      { numRuns: 2000 },
    );
  });
});
