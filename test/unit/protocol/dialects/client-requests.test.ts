import { describe, expect, test } from "vitest";
import { translate, translateOpening } from "../../../../src/protocol/dialects/index.ts";
import * as container from "../../../fixtures/dialects/container-data-model.ts";
import * as localServers from "../../../fixtures/dialects/local-mcp-servers.ts";
import * as webGateway from "../../../fixtures/dialects/web-gateway.ts";
import type { Json } from "../../../fixtures/json.ts";
import { forwarded, frame, json, request } from "./fixtures.ts";

/** The frame a session gets for a canonical client's session/new. */
function opened(raw: string): Json {
  const translation = translateOpening(frame(raw));
  if (!("frame" in translation)) throw new Error(JSON.stringify(translation));
  return json(translation.frame.raw);
}

describe("session/new", () => {
  test("translates the example of the web gateway", () => {
    expect(forwarded("web-gateway", webGateway.newSession)).toEqual({
      ...json(webGateway.newSession),
      params: { cwd: "/workspace", mcpServers: [] },
    });
  });

  test("translates the example of the container data model", () => {
    expect(forwarded("container", container.newSession)).toEqual({
      ...json(container.newSession),
      params: { cwd: "/path/to/repo", mcpServers: [], _meta: { "acp-edge/mode": "development" } },
    });
  });

  test("keeps unknown members, and the id as it was written", () => {
    const raw =
      '{"jsonrpc":"2.0","id":12345678901234567890,"method":"session/new","params":{"x":[1],"_meta":{"a":1}},"y":2}';
    const translation = translate("container", frame(raw));
    expect("frame" in translation && translation.frame.raw).toBe(
      '{"jsonrpc":"2.0","id":12345678901234567890,"method":"session/new","params":{"x":[1],"_meta":{"a":1},"cwd":"/","mcpServers":[]},"y":2}',
    );
  });

  test.each([
    ["file:///a%20b/c", "/a b/c"],
    ["file://localhost/a", "/a"],
    ["FILE:///a", "/a"],
  ])("translates the workspaceUri %s to the directory %s", (workspaceUri, cwd) => {
    expect(forwarded("container", request("session/new", { workspaceUri })).params).toMatchObject({ cwd });
  });

  test.each([
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
  ])("is refused with %j", (params) => {
    expect(translate("container", frame(request("session/new", params)))).toMatchObject({
      refuse: { code: -32602 },
    });
  });

  test("prefers the directory in its canonical place", () => {
    const params = { cwd: "/c", workspaceUri: "file:///w" };
    expect(forwarded("web-gateway", request("session/new", params)).params).toEqual({
      cwd: "/c",
      mcpServers: [],
    });
  });
});

describe("local MCP servers", () => {
  test("are translated as in the dialect's example for an otherwise canonical client", () => {
    expect(opened(localServers.newSession)).toEqual({
      jsonrpc: "2.0",
      id: 2,
      method: "session/new",
      params: {
        cwd: "/path/to/project",
        mcpServers: [{ name: "weather", command: "bun", args: ["x", "@h1deya/mcp-server-weather"], env: [] }],
      },
    });
  });

  test("keep their arguments, variables and a command of one word", () => {
    const mcpServers = [
      { type: "local", command: "serve", args: ["-x"], env: { A: "1", B: 2 }, _meta: { k: 1 } },
      { type: "http", name: "h", url: "https://h", headers: [] },
    ];
    expect(
      forwarded("web-gateway", request("session/load", { sessionId: "s", cwd: "/", mcpServers })).params,
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

  test("leave the text of any other session/new alone", () => {
    for (const mcpServers of ["[]", '[ {"name":"n","command":"c","args":[],"env":[]} ]', "null", "7"]) {
      const raw = `{"jsonrpc":"2.0", "id":1.0,"method":"session/new","params":{"cwd":"/","mcpServers":${mcpServers}}}`;
      const original = frame(raw);
      expect(translateOpening(original)).toEqual({ frame: original });
    }
  });

  test("are refused without a program", () => {
    const raw = request("session/new", { cwd: "/", mcpServers: [{ type: "local", command: [1] }] });
    expect(translateOpening(frame(raw))).toMatchObject({ refuse: { code: -32602 } });
  });
});

describe("session/prompt", () => {
  test("translates the example of the web gateway", () => {
    expect(forwarded("web-gateway", webGateway.prompt)).toEqual({
      jsonrpc: "2.0",
      id: 3,
      method: "session/prompt",
      params: {
        sessionId: "session-abc123",
        prompt: [{ type: "text", text: "Read the README and summarize it" }],
      },
    });
  });

  test("translates the example of the container data model", () => {
    expect(forwarded("container", container.prompt).params).toEqual({
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

  test.each([
    [{ prompt: [{ type: "text", text: "a" }] }, [{ type: "text", text: "a" }]],
    [{ prompt: "a" }, [{ type: "text", text: "a" }]],
    [{ message: { content: "a" } }, [{ type: "text", text: "a" }]],
    [{ message: "a" }, [{ type: "text", text: "a" }]],
    [{ content: "a" }, [{ type: "text", text: "a" }]],
    [{ content: [{ type: "text", text: "a" }], prompt: [] }, []],
  ])("translates %j to the prompt %j", (params, prompt) => {
    for (const name of ["container", "web-gateway"] as const)
      expect(forwarded(name, request("session/prompt", params)).params).toMatchObject({ prompt });
  });

  test("keeps unknown members", () => {
    const message = { role: "user", content: "a", id: "m1" };
    const params = { sessionId: "s", message, _meta: { k: 1 }, x: 2 };
    expect(forwarded("web-gateway", request("session/prompt", params)).params).toEqual({
      sessionId: "s",
      prompt: [{ type: "text", text: "a" }],
      _meta: { k: 1, "acp-edge/promptMessage": { id: "m1" } },
      x: 2,
    });
    const block = { type: "future", anything: 1 };
    expect(forwarded("web-gateway", request("session/prompt", { prompt: [block] })).params).toEqual({
      prompt: [block],
    });
  });

  test.each([
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
  ])("translates the container block %j to %j", (block, canonical) => {
    const { params } = forwarded("container", request("session/prompt", { content: [block] }));
    expect((params as { prompt: unknown[] }).prompt[0]).toMatchObject(canonical);
  });

  test.each([
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
  ])("is refused with %j", (params) => {
    expect(translate("container", frame(request("session/prompt", params)))).toMatchObject({
      refuse: { code: -32602 },
    });
  });
});

describe("any other frame of a client", () => {
  test("set_mode of the web gateway is translated as in the dialect's example", () => {
    expect(forwarded("web-gateway", webGateway.setMode)).toEqual({
      jsonrpc: "2.0",
      id: 5,
      method: "session/set_mode",
      params: { sessionId: "session-abc123", modeId: "code" },
    });
  });

  test("respond_to_permission of the web gateway is translated as in the dialect's example", () => {
    expect(translate("web-gateway", frame(webGateway.respondToPermission))).toEqual({
      permission: { requestId: "perm-xyz789", kind: "allow_once" },
    });
  });

  test.each([
    {},
    { requestId: "a" },
    { requestId: 1, response: "allow_once" },
    { requestId: "a", response: "allow" },
  ])("respond_to_permission %j is refused", (params) => {
    expect(translate("web-gateway", frame(request("session/respond_to_permission", params)))).toMatchObject({
      refuse: { code: -32602 },
    });
  });

  test.each([
    webGateway.cancel,
    localServers.permissionResponse,
    '{"jsonrpc":"2.0", "id":1.0,"method":"_vendor/x","params":{"big":12345678901234567890}}',
  ])("keeps its text if it is canonical: %s", (raw) => {
    for (const name of ["container", "web-gateway"] as const) {
      const translation = translate(name, frame(raw));
      expect("frame" in translation && translation.frame.raw).toBe(raw);
    }
  });
});
