import { expect } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { get, type Opened, openSession, send } from "../fixtures.ts";
import type { Agent } from "../peers/agent.ts";
import type { Client } from "../peers/client.ts";
import { ALL_OF_A_CLIENT, mint } from "../tokens.ts";

/** Redacted links show the conversation and neither the input nor the output of tools. */

/** Words that only the owner may read. Each is used once. */
export class Secrets {
  readonly mark = `hush-${crypto.randomUUID()}`;
  readonly told: string[] = [];

  next(): string {
    this.told.push(`${this.mark}-${this.told.length}`);
    return this.told.at(-1) as string;
  }

  /** A secret that the log does not have either. */
  concealed(): string {
    return `${this.mark}-concealed`;
  }
}

export async function share(opened: Opened, redact?: boolean): Promise<string> {
  const owner = await mint({ workspaces: [opened.workspace], scopes: ALL_OF_A_CLIENT, sub: "owner" });
  const made = await send("POST", "/api/shares", owner, { session: opened.sessionId, redact });
  expect(made.status).toBe(201);
  return ((await made.json()) as { token: string }).token;
}

export async function bytes(path: string, token: string): Promise<string> {
  const response = await get(path, token);
  expect(response.status).toBe(200);
  return new TextDecoder().decode(await response.arrayBuffer());
}

/** Every document of a session that can be read over HTTP. */
export async function documents(token: string, sessionId: string): Promise<Record<string, string>> {
  const paths = ["", "/events", "/events?after=3&limit=1000", "/export"];
  const formats = ["ndjson", "markdown"].map((format) => `/export?format=${format}`);
  const all: Record<string, string> = {};
  for (const path of [...paths, ...formats])
    all[path] = await bytes(`/api/sessions/${sessionId}${path}`, token);
  for (const path of ["/api/sessions", "/api/permissions"]) all[path] = await bytes(path, token);
  return all;
}

const update = (value: Json) =>
  JSON.stringify({
    jsonrpc: "2.0",
    method: "session/update",
    params: { sessionId: "agent-session", update: value },
  });
export const chunk = (text: string, more: Json = {}) =>
  update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text }, ...more });
const ask = (id: number, method: string, params: Json) =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params: { sessionId: "agent-session", ...params } });
const answer = (id: number, body: Json) =>
  JSON.stringify(["answer", JSON.stringify({ jsonrpc: "2.0", id, ...body })]);

export const OPTION = { optionId: "yes", name: "Allow it", kind: "allow_once" };

/** A turn that uses tools and ends with a permission request. */
export function useTools(agent: Agent, secrets: Secrets): void {
  const secret = () => secrets.next();
  agent.items(
    chunk("Let me look."),
    chunk("I have ", { _meta: { vendor: secret() } }),
    update({
      ...{
        sessionUpdate: "tool_call",
        toolCallId: "c",
        title: "Read a file",
        kind: "read",
        status: "in_progress",
      },
      ...{ locations: [{ path: "/workspace/a.txt" }], rawInput: { file: secret() } },
      ...{ content: [{ type: "content", content: { type: "text", text: secret() } }] },
      _meta: { vendor: { toolResponse: secret() } },
    }),
    ask(101, "fs/read_text_file", { path: "/workspace/a.txt", _meta: { why: secret() } }),
    answer(101, { result: { content: secret() } }),
    ask(102, "fs/write_text_file", { path: "/workspace/b.txt", content: secret() }),
    answer(102, { error: { code: -32603, message: secret(), data: { path: secret() } } }),
    ask(103, "terminal/create", { command: secret(), args: [secret()] }),
    answer(103, { result: { terminalId: "t" } }),
    ask(104, "terminal/output", { terminalId: "t" }),
    answer(104, { result: { output: secret(), truncated: false } }),
    update({
      ...{ sessionUpdate: "tool_call_update", toolCallId: "c", status: "completed", rawOutput: secret() },
      content: [{ type: "diff", path: "/workspace/b.txt", oldText: secret(), newText: secret() }],
    }),
    update({ sessionUpdate: "session_info_update", title: "Looking", _meta: { vendor: secret() } }),
    update({ sessionUpdate: "vendor_update", value: secret() }),
    JSON.stringify({ jsonrpc: "2.0", method: "_vendor/tell", params: { value: secret() } }),
    JSON.stringify({ words: secret() }),
    JSON.stringify(["noise", secret()]),
    ask(105, "elicitation/create", {
      ...{ mode: "form", message: secret() },
      requestedSchema: { type: "object", properties: { name: { type: "string", title: secret() } } },
    }),
    ask(106, "session/request_permission", {
      toolCall: { toolCallId: "p", title: "Run the tests", kind: "execute", rawInput: { command: secret() } },
      options: [{ ...OPTION, _meta: { vendor: secret() } }],
    }),
  );
}

type Told = Opened & { secrets: Secrets; link: string };

/** A session whose turn has used tools and waits for a permission. */
export async function begun(): Promise<Told & { prompt: number; question: unknown }> {
  const opened = await openSession();
  const { client, agent, sessionId } = opened;
  const secrets = new Secrets();
  const prompt = client.call("session/prompt", {
    sessionId,
    prompt: [
      { type: "text", text: "Have a look", _meta: { vendor: secrets.next() } },
      {
        type: "resource",
        resource: { uri: "file:///a", text: secrets.next() },
        _meta: { vendor: secrets.next() },
      },
    ],
    _meta: { vendor: secrets.next() },
  });
  await agent.line();
  useTools(agent, secrets);
  for (;;) {
    const { id, method } = await client.takeJson();
    if (method === "elicitation/create")
      reply(client, id, { action: "accept", content: { name: secrets.concealed() } });
    if (method === "session/request_permission")
      return { ...opened, secrets, link: await share(opened, true), prompt, question: id };
  }
}

export function reply(client: Client, id: unknown, result: Json): void {
  client.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
}

/** The session after the permission was given, the agent crashed, and the next one finished a turn. */
export async function ended(): Promise<Told> {
  const told = await begun();
  const { client, agent, host, sessionId, secrets, question, prompt } = told;
  const outcome = { outcome: "selected", optionId: OPTION.optionId };
  reply(client, question, { outcome, _meta: { vendor: secrets.next() } });
  agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: secrets.next() }]));
  const { response } = await client.until(prompt);
  expect(JSON.stringify(response)).toContain(secrets.mark);
  const id = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "Once more" }] });
  const next = await host.agent();
  next.answer(await next.line(), { sessionId: "agent-session", _meta: { vendor: secrets.next() } });
  const asked = await next.line();
  next.items(chunk("All is well. "));
  next.answer(asked, { stopReason: "end_turn", _meta: { vendor: secrets.next() } });
  await client.until(id);
  return { ...told, agent: next };
}

/** A text without the ids of connections, which bearers of links see under other names. */
export function withoutConnections(text: string): string {
  return text.replace(/"(connection|to|except|by)":"(client-[0-9a-f]{16}|[0-9a-f-]{36})"/g, '"$1":""');
}
