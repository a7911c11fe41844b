/** A command in a terminal of the host, as editors with different abilities see it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { faults } from "../fixtures/schema.ts";
import { type Message, parse, RawClient } from "./client.ts";
import { type Gateway, startGateway } from "./gateway.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

type Update = Record<string, unknown> & {
  _meta?: Record<string, Record<string, unknown>>;
  content?: unknown;
};

async function connect(clientCapabilities: object): Promise<RawClient> {
  const client = await RawClient.connect(gateway);
  await client.request("initialize", { protocolVersion: 1, clientCapabilities });
  return client;
}

/** The updates of tool calls among messages, all of which are valid. */
function toolCalls(messages: readonly Message[]): Update[] {
  return messages.flatMap((message) => {
    if (message.method === undefined) return [];
    expect(faults(message), JSON.stringify(message)).toEqual([]);
    const update = message.params?.update as Update | undefined;
    return String(update?.sessionUpdate).startsWith("tool_call") ? [update as Update] : [];
  });
}

const from = (client: RawClient, start = 0) => toolCalls(client.texts.entries.slice(start).map(parse));
const output = (updates: readonly Update[]) =>
  updates.map(({ _meta }) => _meta?.terminal_output?.data ?? "").join("");

test("a command is shown live to an editor with terminals, as text to any other, and so again after a load", async () => {
  await using rich = await connect({ _meta: { terminal_output: true } });
  await using plain = await connect({});
  const cwd = gateway.root;
  const sessionId = await rich.newSession(cwd);
  const attach = { sessionId, cwd, mcpServers: [] };
  await plain.request("session/resume", attach);

  const go = "go-on";
  const command = `echo begun; while [ ! -e ${go} ]; do sleep 0.05; done; echo ended; exit 4`;
  const prompt = [{ type: "text", text: `/terminal ${command}` }];
  const turn = plain.request("session/prompt", { sessionId, prompt });
  // The command waits for a file, so its first output arrives while it runs.
  await rich.texts.until((text) => text.includes("terminal_output") && text.includes("begun"));
  expect(output(from(rich))).toBe("begun\n");
  writeFileSync(join(cwd, go), "");
  await turn;
  await rich.texts.until((text) => text.includes("Exit code 4"));

  const live = from(rich);
  expect(output(live)).toBe("begun\nended\n");
  const names = live.findIndex(({ content }) => JSON.stringify(content)?.includes('"terminal"'));
  const announced = live.findIndex(({ _meta }) => _meta?.terminal_info);
  expect(announced).toBeGreaterThan(-1);
  expect(announced).toBeLessThan(names);
  expect(live[announced]).toMatchObject({ sessionUpdate: "tool_call", _meta: { terminal_info: { cwd } } });
  expect(live.find(({ _meta }) => _meta?.terminal_exit)?._meta?.terminal_exit).toMatchObject({
    exit_code: 4,
  });

  const shown = from(plain);
  expect(JSON.stringify(shown)).not.toMatch(/terminalId|terminal_/);
  const text = shown.findLast(({ content }) => Array.isArray(content));
  expect(JSON.stringify(text)).toContain("begun\\nended\\n[exit code 4]");
  expect(shown.at(-1)).toMatchObject({ status: "failed" });

  for (const [client, before] of [
    [rich, live],
    [plain, shown],
  ] as const) {
    const start = client.texts.entries.length;
    await client.request("session/load", attach);
    expect(from(client, start)).toEqual(before);
  }
});
