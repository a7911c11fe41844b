import { describe, expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { events, send, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { dialHost, Peer } from "./peers/peer.ts";
import { token } from "./tokens.ts";

type Request = { id: string; method: string; params: Json };

const FILES = { fs: { readTextFile: true, writeTextFile: true } };
const ALL = { ...FILES, terminal: true };

async function clientIo(workspace: string, value: "client" | "host"): Promise<void> {
  const bearer = await token({ workspace, scopes: ["session:read", "workspace:admin"] });
  const response = await send("PUT", `/api/workspaces/${workspace}`, bearer, { clientIo: value });
  expect(response.status).toBe(200);
}

async function connect(workspace: string, clientCapabilities: object): Promise<Client> {
  const client = await Client.raw(workspace);
  await client.request("initialize", { protocolVersion: 1, clientCapabilities });
  return client;
}

/** A workspace whose clients serve the files, and a session of a client with these capabilities. */
async function open(capabilities: object, cwd = "/home/me/project") {
  const workspace = workspaceName();
  await clientIo(workspace, "client");
  const host = await Host.join(workspace);
  const client = await connect(workspace, capabilities);
  const opening = client.request("session/new", { cwd, mcpServers: [] });
  const agent = await host.agent();
  await agent.openSession();
  const { response } = await opening;
  const { sessionId } = response.result as { sessionId: string };
  const ask = (id: unknown, method: string, params: object = {}) =>
    agent.items(
      JSON.stringify({ jsonrpc: "2.0", id, method, params: { sessionId: "agent-session", ...params } }),
    );
  return { workspace, host, client, agent, sessionId, ask };
}

/** The next request that a client gets. */
async function asked(client: Client): Promise<Request> {
  for (;;) {
    const message = await client.takeJson();
    if ("method" in message && "id" in message) return message as Request;
  }
}

function answer(client: Client, { id }: Request, result: unknown): void {
  client.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
}

describe("files and terminals of the client", () => {
  test("are requested below the client's own directory, and the log has the request, the answer and the operation", async () => {
    const { client, agent, ask, sessionId, workspace } = await open(ALL);
    ask(7, "fs/read_text_file", { path: "/workspace/src/a.ts", line: 3 });
    const request = await asked(client);
    expect(request).toMatchObject({
      method: "fs/read_text_file",
      params: { sessionId, path: "/home/me/project/src/a.ts", line: 3 },
    });
    answer(client, request, { content: "text" });
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 7, result: { content: "text" } });

    const log = await events(workspace, sessionId);
    const { payload } = log.find((event) => event.kind === "client.fs.read") as {
      payload: { request: number; answer: number; ok: boolean };
    };
    expect(payload.ok).toBe(true);
    // The frame is the agent's own, unchanged.
    expect(log[payload.request - 1]).toMatchObject({
      source: "agent",
      payload: { message: { params: { path: "/workspace/src/a.ts" } } },
    });
    expect(log[payload.answer - 1]).toMatchObject({ source: "client" });
    expect(log.at(-1)?.kind).toBe("client.fs.read");
  });

  test.each(["fs/read_binary_file", "fs/other", "FS/read_text_file", "terminal/attach"])(
    "[I13] are not asked for by a method that nothing confines: %s",
    async (method) => {
      const { client, agent, ask } = await open(ALL);
      ask(1, method, { path: "/etc/passwd" });
      expect(await agent.line()).toMatchObject({ id: 1, error: { code: -32601 } });
      agent.update("after");
      const seen = [await client.takeJson()];
      while (JSON.stringify(seen.at(-1)).includes("after") === false) seen.push(await client.takeJson());
      expect(seen.filter((message) => "id" in message)).toEqual([]);
    },
  );

  test.each([
    ["fs/write_text_file", { path: "/etc/hosts", content: "" }],
    ["fs/read_text_file", { path: "/workspace/../../.ssh/id_ed25519" }],
    ["fs/read_text_file", { path: "../secret" }],
    ["fs/read_text_file", { path: "/workspace/a\\..\\..\\b" }],
    ["fs/read_text_file", { path: "/workspace/a\0b" }],
    ["fs/read_text_file", {}],
    ["terminal/create", { command: "sh", cwd: "/" }],
    ["terminal/create", { command: "sh", cwd: ["/workspace"] }],
  ])("[I13] are refused outside the client's directory: %s %j", async (method, params) => {
    const { client, agent, ask } = await open(ALL);
    ask(1, method, params);
    expect(await agent.line()).toMatchObject({
      id: 1,
      error: { code: -32602, data: { reason: "outside-workspace" } },
    });
    agent.update("after");
    const seen = [await client.takeJson()];
    while (JSON.stringify(seen.at(-1)).includes("after") === false) seen.push(await client.takeJson());
    expect(seen.filter((message) => "id" in message)).toEqual([]);
  });

  test("are the file that the path means, once it is resolved", async () => {
    const { client, ask } = await open(ALL);
    ask(1, "fs/read_text_file", { path: "/workspace/./src/../src//a.ts" });
    expect((await asked(client)).params.path).toBe("/home/me/project/src/a.ts");
  });

  test("are below the directory of a client that logged in before it opened the session", async () => {
    const workspace = workspaceName();
    await clientIo(workspace, "client");
    const host = await Host.join(workspace);
    const client = await connect(workspace, ALL);
    const login = client.request("authenticate", { methodId: "m" });
    const agent = await host.agent();
    agent.answer(await agent.line(), {});
    await login;
    const opening = client.request("session/new", { cwd: "/home/me/project", mcpServers: [] });
    await agent.openSession();
    await opening;
    const params = { sessionId: "agent-session", path: "/workspace/a" };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "fs/read_text_file", params }));
    expect((await asked(client)).params.path).toBe("/home/me/project/a");
  });

  test.each([[{}], [{ cwd: null }]])(
    "include terminals without a directory, which start in the client's directory: %j",
    async (params) => {
      const { client, ask } = await open(ALL);
      ask(1, "terminal/create", { command: "ls", ...params });
      expect((await asked(client)).params).toMatchObject({ command: "ls", cwd: "/home/me/project" });
    },
  );

  test("include terminals, each of which stays with the client that created it", async () => {
    const { client, agent, ask, workspace, sessionId } = await open(ALL);
    ask(1, "terminal/create", { command: "ls", cwd: "/workspace/sub" });
    const create = await asked(client);
    expect(create.params).toMatchObject({ command: "ls", cwd: "/home/me/project/sub" });
    answer(client, create, { terminalId: "t1" });
    await agent.line();

    const other = await connect(workspace, ALL);
    await other.request("session/load", { sessionId, cwd: "/elsewhere", mcpServers: [] });
    ask(2, "terminal/output", { terminalId: "t1" });
    const output = await asked(client);
    expect(output.method).toBe("terminal/output");
    answer(client, output, { output: "", truncated: false });
    await agent.line();

    ask(3, "terminal/release", { terminalId: "t1" });
    answer(client, await asked(client), {});
    await agent.line();
    ask(4, "terminal/output", { terminalId: "t1" });
    expect(await agent.line()).toMatchObject({ id: 4, error: { code: -32002, message: "Unknown terminal" } });
    const kinds = (await events(workspace, sessionId)).map(({ kind }) => kind as string);
    expect(kinds.filter((kind) => kind.startsWith("client."))).toEqual([
      "client.terminal.create",
      "client.terminal.output",
      "client.terminal.release",
    ]);
  });

  test("are those of the client whose turn runs, and of no other", async () => {
    const { client, agent, ask, workspace, sessionId } = await open(ALL);
    const other = await connect(workspace, ALL);
    await other.request("session/resume", { sessionId, cwd: "C:\\project", mcpServers: [] });
    const turn = other.call("session/prompt", { sessionId, prompt: [] });
    const prompt = await agent.line();
    ask("x", "fs/read_text_file", { path: "/workspace/src/a.ts" });
    const request = await asked(other);
    expect(request.params.path).toBe("C:\\project\\src\\a.ts");
    answer(other, request, { content: "" });
    await agent.line();
    agent.answer(prompt, { stopReason: "end_turn" });
    await other.until(turn);
    agent.update("after");
    const seen: Json[] = [];
    while (JSON.stringify(seen.at(-1))?.includes("after") !== true) seen.push(await client.takeJson());
    expect(seen.filter((message) => "id" in message)).toEqual([]);
    expect(seen.filter(({ method }) => method === "$/cancel_request")).toEqual([]);
  });

  test.each([
    ["fs/write_text_file", { fs: { readTextFile: true }, terminal: true }],
    ["terminal/create", FILES],
    ["fs/read_text_file", {}],
  ])("are refused when no client offers them: %s", async (method, capabilities) => {
    const { agent, ask } = await open(capabilities);
    ask(1, method, { path: "/workspace/a" });
    expect(await agent.line()).toMatchObject({
      id: 1,
      error: { code: -32601, message: expect.stringContaining(`no attached client offers ${method}`) },
    });
  });

  test("come from another client that offers them when the client of the turn does not", async () => {
    const { client, agent, ask, workspace, sessionId } = await open(ALL);
    const phone = await connect(workspace, {});
    phone.call("session/prompt", { sessionId, prompt: [] });
    await agent.line();
    ask(1, "fs/read_text_file", { path: "/workspace/a" });
    expect((await asked(client)).method).toBe("fs/read_text_file");
  });

  test("end with an error when the client that was asked is gone", async () => {
    const { client, agent, ask, workspace, sessionId } = await open(ALL);
    ask(1, "fs/read_text_file", { path: "/workspace/a" });
    await asked(client);
    client.socket.close(1000);
    expect(await agent.line()).toMatchObject({
      id: 1,
      error: { message: "The client that was asked is gone" },
    });
    const log = await events(workspace, sessionId);
    expect(log.find(({ kind }) => kind === "client.fs.read")).toMatchObject({ payload: { ok: false } });
  });

  test("carry the client's own error to the agent", async () => {
    const { client, agent, ask } = await open(ALL);
    ask(1, "fs/read_text_file", { path: "/workspace/a" });
    const { id } = await asked(client);
    const error = { code: -32002, message: "no such file" };
    client.send(JSON.stringify({ jsonrpc: "2.0", id, error }));
    expect(await agent.line()).toMatchObject({ id: 1, error });
  });

  test("[I13] are served only to processes that start after the workspace has said so", async () => {
    const { client, agent, ask, workspace, host, sessionId } = await open(ALL);
    await clientIo(workspace, "host");
    ask(1, "fs/read_text_file", { path: "/workspace/a" });
    answer(client, await asked(client), { content: "" });
    await agent.line();

    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    client.call("session/prompt", { sessionId, prompt: [] });
    const next = await host.agent();
    await next.openSession();
    await next.line();
    next.items('{"jsonrpc":"2.0","id":2,"method":"fs/read_text_file","params":{"path":"/workspace/a"}}');
    next.items(JSON.stringify(["answer", '{"jsonrpc":"2.0","id":2,"result":{"content":"host"}}']));
    expect(await next.line()).toMatchObject({ id: 2, result: { content: "host" } });
  });
});

describe("[I13] a host that says of itself who serves the files", () => {
  test.each([
    ["client", "host"],
    ["host", "client"],
  ] as const)("is refused: it says the %s, the workspace the %s", async (said, decided) => {
    const workspace = workspaceName();
    await clientIo(workspace, decided);
    const host = await Host.join(workspace);
    const client = await connect(workspace, ALL);
    const opening = client.request("session/new", { cwd: "/home/me/project", mcpServers: [] });
    const { sessionId, processRequest } = await host.order();
    const link = new Peer(await dialHost(workspace, `/host/sessions/${sessionId}`));
    const place = { run: crypto.randomUUID(), agent: "scripted", host: "h1", root: "/workspace" };
    link.send(
      JSON.stringify({ t: "hello", ...place, processRequest, delivered: 0, draining: false, io: said }),
    );
    const { code, reason } = await link.closed;
    expect(code).toBe(4409);
    expect(reason).toContain(`served by the ${said}, the workspace by the ${decided}`);
    // The client learns the reason at once.
    expect((await opening).response).toMatchObject({ error: { message: expect.stringContaining(reason) } });
  });
});

describe("the capabilities of a client", () => {
  const cwd = "/home/me/project";
  const mcpServers = [{ name: "tools", command: "/bin/tools", args: ["-x"], env: [] }];
  const given = {
    cwd,
    mcpServers,
    additionalDirectories: [`${cwd}/sub`, "/opt/shared", cwd],
    _meta: { a: 1 },
  };
  const got = {
    cwd: "/workspace",
    mcpServers,
    additionalDirectories: ["/workspace/sub", "/opt/shared", "/workspace"],
    _meta: { a: 1 },
  };

  async function opened(capabilities: object) {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    host.capabilities = capabilities;
    const client = await Client.open(workspace);
    const opening = client.request("session/new", given);
    const agent = await host.agent();
    const request = await agent.openSession();
    const { response } = await opening;
    return { host, client, agent, request, sessionId: (response.result as { sessionId: string }).sessionId };
  }

  test("reach the agent of a new session", async () => {
    expect((await opened({})).request).toMatchObject({ method: "session/new", params: got });
  });

  test.each([
    ["session/load", { loadSession: true }],
    ["session/resume", { sessionCapabilities: { resume: {} } }],
    ["session/new", {}],
  ])("reach the next agent process, which opens the session with %s", async (method, capabilities) => {
    const { host, client, agent, sessionId } = await opened(capabilities);
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    client.call("session/prompt", { sessionId, prompt: [] });
    const next = await host.agent();
    expect(await next.line()).toMatchObject({ method, params: got });
  });

  test.each([
    ["session/fork", { sessionCapabilities: { fork: {} } }],
    ["session/new", {}],
  ])("reach the agent of a fork opened with %s", async (method, capabilities) => {
    const { host, client, sessionId } = await opened(capabilities);
    const { response } = await client.request("session/fork", { ...given, sessionId });
    const fork = (response.result as { sessionId: string }).sessionId;
    client.call("session/prompt", { sessionId: fork, prompt: [] });
    const next = await host.agent();
    expect(await next.line()).toMatchObject({ method, params: got });
  });
});
