import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { events, type Opened, openSession, prompt, sessionStub } from "./fixtures.ts";
import { Client } from "./peers/client.ts";

const ALL = {
  session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
  plan: {},
  _meta: { terminal_output: true },
};

async function clientWith({ workspace }: Opened, clientCapabilities: object): Promise<Client> {
  const client = await Client.raw(workspace);
  await client.request("initialize", { protocolVersion: 1, clientCapabilities });
  return client;
}

async function attach(opened: Opened, clientCapabilities: object, method = "session/resume") {
  const client = await clientWith(opened, clientCapabilities);
  const params = { sessionId: opened.sessionId, cwd: "/", mcpServers: [] };
  return { client, ...(await client.request(method, params)) };
}

function update({ agent }: Opened, given: Json): void {
  const params = { sessionId: "agent-session", update: given };
  agent.items(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params }));
}

/** The updates that a client gets up to a message of the agent that says `mark`. */
async function upToMark(client: Client, mark: string): Promise<Json[]> {
  const got: Json[] = [];
  for (;;) {
    const { update: given } = ((await client.takeJson()).params ?? {}) as { update?: Json };
    if (JSON.stringify(given).includes(mark)) return got;
    if (given) got.push(given);
  }
}

const kinds = (updates: readonly Json[]) => updates.map(({ sessionUpdate }) => sessionUpdate);
const TOGGLE = { id: "web", name: "Web", type: "boolean", currentValue: true };
const OPTION = {
  id: "m",
  name: "M",
  type: "select",
  currentValue: "a",
  options: [{ value: "a", name: "A" }],
};
const TERMINAL = { type: "terminal", terminalId: "x" };

/** The agent runs a command in a terminal of the host, and shows it. */
function runCommand(opened: Opened): void {
  const { agent } = opened;
  const call = { toolCallId: "t", title: "Build" };
  update(opened, { sessionUpdate: "tool_call", ...call });
  const params = { sessionId: "agent-session", command: "make" };
  agent.items(
    JSON.stringify({ jsonrpc: "2.0", id: 7, method: "terminal/create", params }),
    JSON.stringify(["answer", '{"jsonrpc":"2.0","id":7,"result":{"terminalId":"x"}}']),
  );
  update(opened, { sessionUpdate: "tool_call_update", toolCallId: "t", content: [TERMINAL] });
  agent.items(
    JSON.stringify(["terminal_output", { terminalId: "x", data: "built\n" }]),
    JSON.stringify(["terminal_exit", { terminalId: "x", exitCode: 0, signal: null }]),
  );
  update(opened, { sessionUpdate: "tool_call_update", toolCallId: "t", status: "completed" });
}

describe("clients with different abilities in one session", () => {
  test("each get what they can show, live and after a load", async () => {
    const opened = await openSession();
    const { client: plain, agent, sessionId } = opened;
    const { client: rich } = await attach(opened, ALL);
    plain.call("session/prompt", prompt(sessionId));
    await agent.line();
    update(opened, { sessionUpdate: "notice", severity: "info", title: "t" });
    update(opened, { sessionUpdate: "compaction_update", compactionId: "c", status: "completed" });
    update(opened, { sessionUpdate: "config_option_update", configOptions: [TOGGLE, OPTION] });
    const entries = [{ content: "e", priority: "low", status: "pending" }];
    update(opened, { sessionUpdate: "plan_update", plan: { type: "items", planId: "p", entries } });
    runCommand(opened);
    agent.update("the-end");

    const shown = await upToMark(plain, "the-end");
    const text = (of: string) => [
      { type: "content", content: { type: "text", text: `\`\`\`\n${of}\n\`\`\`` } },
    ];
    expect(shown).toEqual([
      { sessionUpdate: "config_option_update", configOptions: [OPTION] },
      { sessionUpdate: "plan", entries },
      { sessionUpdate: "tool_call", toolCallId: "t", title: "Build" },
      { sessionUpdate: "tool_call_update", toolCallId: "t", content: text("$ make") },
      { sessionUpdate: "tool_call_update", toolCallId: "t", content: null },
      { sessionUpdate: "tool_call_update", toolCallId: "t", content: text("$ make\nbuilt") },
      { sessionUpdate: "tool_call_update", toolCallId: "t", status: "completed" },
    ]);
    const richer = await upToMark(rich, "the-end");
    expect(kinds(richer)).toEqual([
      "user_message_chunk",
      "notice",
      "compaction_update",
      "config_option_update",
      "plan_update",
      "tool_call",
      "tool_call",
      ...Array.from({ length: 4 }, () => "tool_call_update"),
    ]);
    expect(richer[6]).toMatchObject({ _meta: { terminal_info: { terminal_id: "x", cwd: "/workspace" } } });
    expect(richer.slice(7)).toMatchObject([
      { content: [TERMINAL] },
      { _meta: { terminal_output: { terminal_id: "x", data: "built\n" } } },
      { _meta: { terminal_exit: { terminal_id: "x", exit_code: 0 } } },
      { status: "completed" },
    ]);

    await evictDurableObject(sessionStub(sessionId));
    const replayed = async (capabilities: object) => {
      const { before, response } = await attach(opened, capabilities, "session/load");
      const { configOptions } = response.result as { configOptions: Json[] };
      const updates = before.map(({ params }) => (params as { update: Json }).update);
      return {
        configOptions,
        updates: updates.filter((one) => !/message_chunk/.test(String(one.sessionUpdate))),
      };
    };
    expect(await replayed({})).toEqual({ configOptions: [OPTION], updates: shown });
    expect(await replayed(ALL)).toEqual({
      configOptions: [TOGGLE, OPTION],
      updates: richer.filter(
        ({ sessionUpdate }) => sessionUpdate !== "notice" && sessionUpdate !== "user_message_chunk",
      ),
    });
    // The log has the agent's own words.
    const said = (await events(opened.workspace, sessionId)).filter(({ source }) => source === "agent");
    expect(JSON.stringify(said)).toContain(JSON.stringify(TERMINAL));
  });

  test("are asked for a permission in a form that each knows, also if they attach later", async () => {
    const opened = await openSession();
    const { client: plain, agent, sessionId } = opened;
    plain.call("session/prompt", prompt(sessionId));
    await agent.line();
    const toolCall = { toolCallId: "t", title: "T", content: [TERMINAL] };
    const options = [{ optionId: "y", name: "Yes", kind: "allow_once" }];
    const params = { sessionId: "agent-session", toolCall, options };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 9, method: "session/request_permission", params }));
    const withoutTerminal = {
      method: "session/request_permission",
      params: { toolCall: { ...toolCall, content: [] } },
    };
    expect(await plain.takeJson()).toMatchObject(withoutTerminal);
    const { client: late } = await attach(opened, {});
    expect(await late.takeJson()).toMatchObject(withoutTerminal);
    // A client that attaches without a replay has not been told of the terminal.
    const { client: fresh } = await attach(opened, ALL);
    expect(await fresh.takeJson()).toMatchObject(withoutTerminal);
    const { client: rich, before } = await attach(opened, ALL, "session/load");
    expect(before.map((message) => (message.params as { update: Json }).update)).toContainEqual(
      expect.objectContaining({ _meta: { terminal_info: { terminal_id: "x", cwd: "/workspace" } } }),
    );
    expect(await rich.takeJson()).toMatchObject({ params: { toolCall } });

    agent.items(JSON.stringify(["terminal_output", { terminalId: "x", data: "later\n" }]));
    update(opened, {
      sessionUpdate: "tool_call_update",
      toolCallId: "t",
      status: "completed",
      content: [TERMINAL],
    });
    agent.update("the-end");
    const named = await upToMark(rich, "the-end");
    expect(named.at(-1)).toMatchObject({ content: [TERMINAL], status: "completed" });
    for (const client of [fresh, late]) {
      const [text, last] = (await upToMark(client, "the-end")).slice(-2);
      expect(JSON.stringify(text)).toContain("later");
      expect(last).toMatchObject({ content: null, status: "completed" });
    }
  });

  test("get the settings of a fork without options that they cannot show", async () => {
    const opened = await openSession();
    update(opened, { sessionUpdate: "config_option_update", configOptions: [TOGGLE, OPTION] });
    await opened.agent.durable();
    for (const [capabilities, configOptions] of [
      [{}, [OPTION]],
      [ALL, [TOGGLE, OPTION]],
    ] as const) {
      const { client } = await attach(opened, capabilities);
      const params = { sessionId: opened.sessionId, cwd: "/", mcpServers: [] };
      const { response } = await client.request("session/fork", params);
      expect(response.result).toMatchObject({ configOptions });
    }
  });
});
