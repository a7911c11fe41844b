/** An agent tells its secrets in every form and every way, and no reader of the session gets any of them. */
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../fixtures/temporary-directory.ts";
import { Client } from "./client.ts";
import type { Order } from "./fixtures/leaking-agent.ts";
import { FORMS } from "./fixtures/secret-forms.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { Receiver } from "./webhook-receiver.ts";

const AGENT = fileURLToPath(new URL("fixtures/leaking-agent.ts", import.meta.url));

/** A value that every encoding changes, under a name that does not sound secret. */
const newSecret = () =>
  `${randomBytes(9).toString("base64url")}"\\é /${randomBytes(9).toString("base64url")}`;
const SECRETS = { LEAK_ONE: newSecret(), LEAK_TWO: newSecret() };
const NAMES = Object.keys(SECRETS);

/** Each form of each secret, without the ends: the neighbours of a secret decide these in base64. */
const FORBIDDEN = Object.entries(SECRETS).flatMap(([name, value]) =>
  Object.entries(FORMS).map(([form, encode]) => ({
    form: `${name} ${form}`,
    part: encode(value).slice(4, -4),
  })),
);

/** The rest of all that the agent tells: nothing but the secrets is missing. */
const LEFT = new RegExp(
  NAMES.flatMap((name) =>
    Object.keys(FORMS).map((form) => `<${name} ${form}: [\\w+/=]{0,6}\\[redacted:${name}\\][\\w+/=]{0,6} >`),
  ).join("\\s+"),
);

/** The forms that a text has. A JSON text counts twice: as it is, and with one level of escapes undone. */
function formsIn(text: string): string[] {
  const texts = [text, text.replaceAll('\\"', '"').replaceAll("\\\\", "\\")];
  return FORBIDDEN.filter(({ part }) => texts.some((one) => one.includes(part))).map(({ form }) => form);
}

type Update = {
  sessionUpdate: string;
  content?: { text?: string };
  _meta?: { terminal_output?: { data: string } };
};

/** The texts that the agent told in chunks, put together. */
function told(messages: readonly unknown[]): Record<"message" | "thought" | "terminal", string> {
  const all = { message: "", thought: "", terminal: "" };
  for (const message of messages) {
    const update = (message as { params?: { update?: Update } } | undefined)?.params?.update;
    if (update?.sessionUpdate === "agent_message_chunk") all.message += update.content?.text;
    if (update?.sessionUpdate === "agent_thought_chunk") all.thought += update.content?.text;
    all.terminal += update?._meta?.terminal_output?.data ?? "";
  }
  return all;
}

const messagesOf = (lines: string): unknown[] =>
  lines
    .split("\n")
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as { payload: { message?: unknown } }).payload.message);

/** Reads the live event stream until the event with this number has come. */
async function listen(gateway: Gateway, path: string): Promise<(upTo: number) => Promise<string>> {
  const ending = new AbortController();
  const { body } = await gateway.api(path, {
    headers: { accept: "text/event-stream" },
    signal: ending.signal,
  });
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  let heard = "";
  return async (upTo) => {
    while (!heard.includes(`"seq":${upTo},`) || !heard.endsWith("\n\n"))
      heard += (await reader.read()).value ?? "";
    ending.abort();
    return heard;
  };
}

/** The files below a directory that have a part of a secret. */
function filesWith(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => formsIn(readFileSync(path, "latin1")).length > 0);
}

test("the secrets of an agent reach nobody, in whichever form the agent tells them", async () => {
  await using receiver = await Receiver.start();
  const catalogue = join(temporaryDirectory(), "catalogue.json");
  const command = [process.execPath, AGENT];
  const leaking = { id: "leaking", name: "leaking", command, requires: NAMES };
  writeFileSync(catalogue, JSON.stringify({ agents: [leaking] }));
  await using gateway = await startGateway({
    args: ["--catalogue", catalogue, "--agents", "leaking", "--pass-env", NAMES.join(",")],
    // A chunk never waits in vain here: on a busy machine the next one may be late.
    env: { LEAK_TWO: SECRETS.LEAK_TWO, ACP_EDGE_TIMING: '{"holdMinMs":20000,"holdMaxMs":20000}' },
  });
  await receiver.hook(gateway, "/hook");
  const put = await gateway.api(`/api/workspaces/${gateway.workspace}/secrets/LEAK_ONE`, {
    method: "PUT",
    body: JSON.stringify({ value: SECRETS.LEAK_ONE }),
  });
  expect(put.status).toBe(204);
  await eventually(async () => {
    const { agents } = (await (await gateway.api("/api/agents")).json()) as {
      agents: [{ available: boolean }];
    };
    return agents[0].available;
  });

  // Clients without this ability get no output of terminals in pieces.
  const capabilities = { _meta: { terminal_output: true } };
  const client = await Client.connect(gateway, { capabilities });
  client.onPermission = () => ({ outcome: { outcome: "selected", optionId: "yes" } });
  const sessionId = await client.newSession();
  const path = `/api/sessions/${sessionId}`;
  const live = await listen(gateway, `${path}/events`);
  const order = (deed: Order["deed"]) => JSON.stringify({ deed, names: NAMES } satisfies Order);
  await client.prompt(sessionId, order("print"));
  await client.prompt(sessionId, order("useTools"));
  const failure = client.prompt(sessionId, order("fail"));
  await expect(failure).rejects.toThrow(LEFT);
  await expect(client.prompt(sessionId, order("crash"))).rejects.toThrow("exit code 1");
  await receiver.receives(({ message }) => message.type === "turn.ended", 4);
  await receiver.receives(({ message }) => message.type === "agent.failed");
  await receiver.receives(({ message }) => message.type === "permission.pending");

  const reader = await Client.connect(gateway, { capabilities });
  await reader.load(sessionId);
  const read = async (rest: string) => (await gateway.api(`${path}${rest}`)).text();
  const events = await read("/events");
  const last = (JSON.parse(events.trimEnd().split("\n").at(-1) ?? "") as { seq: number }).seq;
  const heard = await live(last);
  const streamed = [...heard.matchAll(/^data: (.*)$/gm)].map(([, data]) => data).join("\n");
  const texts: Record<string, string> = {
    ...{ events, view: await read(""), sessions: await (await gateway.api("/api/sessions")).text() },
    ...{ live: heard, ndjson: await read("/export?format=ndjson") },
    ...{ markdown: await read("/export?format=markdown"), archive: await read("/export") },
    client: JSON.stringify(client.wire.entries),
    loaded: JSON.stringify(reader.wire.entries),
    webhooks: receiver.deliveries.map(({ raw }) => raw).join("\n"),
    logs: gateway.log(),
  };
  const ways = {
    events: told(messagesOf(events)),
    live: told(messagesOf(streamed)),
    ndjson: told(messagesOf(texts.ndjson ?? "")),
    client: told(client.wire.entries.map(({ message }) => message)),
    loaded: told(reader.wire.entries.map(({ message }) => message)),
  };
  for (const [way, { message, thought, terminal }] of Object.entries(ways)) {
    for (const text of [message, thought, terminal])
      expect([way, text]).toEqual([way, expect.stringMatching(LEFT)]);
    texts[`all of ${way}`] = [message, thought, terminal].join("\n");
  }
  expect(texts.markdown).toMatch(LEFT);
  for (const [way, text] of Object.entries(texts)) expect([way, formsIn(text)]).toEqual([way, []]);
  // The output of a terminal, a plain line, a line that is not UTF-8, and stderr are all there.
  const marked = "<LEAK_ONE plain: [redacted:LEAK_ONE] >";
  for (const part of [
    '"output":"[redacted:LEAK_TWO]\\n"',
    '"stdout":"[redacted:beginning of a secret]"',
    `a plain line: ${marked}`,
    `not UTF-8: ${marked}`,
    `rejected: ${marked}`,
    `Allow ${marked}`,
    "LEAK_TWO allEscaped: [redacted:LEAK_TWO] >\\nthe end of it",
  ])
    expect(events).toContain(part);
  expect(texts.webhooks).toContain("[redacted:LEAK_ONE]");
  // The agent has the file as it wrote it.
  expect(formsIn(readFileSync(join(gateway.root, "notes.txt"), "utf8"))).toHaveLength(FORBIDDEN.length);

  await client.close();
  await reader.close();
  await gateway.stop();
  expect(filesWith(gateway.state)).toEqual([]);
});
