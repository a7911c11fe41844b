/** An editor's prompt travels through the gateway to an agent process and back. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { methods, type RequestPermissionResponse, type SessionUpdate } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { unknownLines } from "../../src/demo-agent/commands/wire.ts";
import { png } from "../../src/demo-agent/media.ts";
import { Client, loggedUpdates, RawClient, readLog } from "./client.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { streamed, textOf, upTo } from "./updates.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const select = (optionId: string): RequestPermissionResponse => ({
  outcome: { outcome: "selected", optionId },
});
const isPermissionRequest = ({ method }: { method?: string }) => method === "session/request_permission";

describe("a client on one connection", () => {
  let client: Client;
  beforeAll(async () => {
    client = await Client.connect(gateway);
  });
  afterAll(() => client?.close());

  test("two sessions prompted at the same time each get all of their updates, in order", async () => {
    const [a, b] = await Promise.all([client.newSession(), client.newSession()]);
    expect(a).not.toBe(b);
    // Neither turn can end before both have streamed.
    const bothStreamed = Promise.withResolvers<void>();
    const waiting = new Set<string>();
    client.onPermission = async ({ sessionId }) => {
      if (waiting.add(sessionId).size === 2) bothStreamed.resolve();
      await bothStreamed.promise;
      return select("allow");
    };
    const [turnA, turnB] = await Promise.all([
      client.prompt(a, "/stream 400 120 1\n/permission\n/max_tokens"),
      client.prompt(b, "/stream 300 80 1\n/permission\n/refuse"),
    ]);
    expect(streamed(turnA.updates)).toEqual(upTo(400));
    expect(streamed(turnB.updates)).toEqual(upTo(300));
    expect([turnA.stopReason, turnB.stopReason]).toEqual(["max_tokens", "refusal"]);
  });

  test("a long stream without pauses arrives complete", async () => {
    const session = await client.newSession();
    const { updates, stopReason } = await client.prompt(session, "/stream 20000 120");
    expect(stopReason).toBe("end_turn");
    expect(streamed(updates)).toEqual(upTo(20_000));
  });

  test("every kind of update of a turn arrives before its response", async () => {
    const session = await client.newSession();
    const { updates } = await client.prompt(
      session,
      "/think Hm.\n/plan\n/tool search\n/fail\n/usage\n/title T",
    );
    const kinds = updates.map(({ sessionUpdate }) => sessionUpdate);
    for (const kind of [
      "agent_thought_chunk",
      "plan",
      "tool_call",
      "tool_call_update",
      "usage_update",
      "session_info_update",
    ]) {
      expect(kinds).toContain(kind);
    }
  });

  test.each([
    ["allow", "completed"],
    ["reject", "failed"],
  ])("a permission request answered with %s reaches the agent", async (optionId, status) => {
    const session = await client.newSession();
    const asked: string[] = [];
    client.onPermission = ({ sessionId }) => {
      asked.push(sessionId);
      return select(optionId);
    };
    const { updates, stopReason } = await client.prompt(session, "/permission");
    expect(asked).toEqual([session]);
    expect(stopReason).toBe("end_turn");
    expect(textOf(updates)).toBe(`Permission selected: ${optionId}\n`);
    expect(updates).toContainEqual(expect.objectContaining({ sessionUpdate: "tool_call_update", status }));
    const kinds = (await readLog(gateway, session)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind.startsWith("permission."))).toEqual([
      "permission.requested",
      "permission.responded",
    ]);
  });

  test("two sessions ask for permission at the same time and each gets its own answer", async () => {
    const sessions = await Promise.all([client.newSession(), client.newSession()]);
    const bothAsked = Promise.withResolvers<void>();
    const asked: string[] = [];
    client.onPermission = async ({ sessionId }) => {
      if (asked.push(sessionId) === sessions.length) bothAsked.resolve();
      await bothAsked.promise;
      return select(sessionId === sessions[0] ? "allow-always" : "reject-always");
    };
    const turns = await Promise.all(sessions.map((session) => client.prompt(session, "/permission")));
    expect(turns.map(({ updates }) => textOf(updates))).toEqual([
      "Permission selected: allow-always\n",
      "Permission selected: reject-always\n",
    ]);
  });

  test("a cancelled turn ends as cancelled, and the next one runs", async () => {
    const session = await client.newSession();
    const turn = client.prompt(session, "/slow 60");
    await client.hears(session, "tick 2 ");
    await client.cancel(session);
    expect((await turn).stopReason).toBe("cancelled");
    expect((await client.prompt(session, "again")).stopReason).toBe("end_turn");
  });

  test("a turn that waits for a permission can be cancelled", async () => {
    const session = await client.newSession();
    client.onPermission = () => new Promise(() => {});
    const turn = client.prompt(session, "/permission");
    await client.receives((message) => isPermissionRequest(message) && message.params?.sessionId === session);
    await client.cancel(session);
    expect((await turn).stopReason).toBe("cancelled");
    const responded = (await readLog(gateway, session)).filter(({ kind }) => kind === "permission.responded");
    expect(responded).toMatchObject([{ payload: { outcome: { outcome: "cancelled" } } }]);
  });

  test("a second prompt waits for the turn before it, and then runs", async () => {
    const session = await client.newSession();
    const first = client.prompt(session, "/stream 50 40 2");
    const second = client.prompt(session, "/stream 20 40\n/history");
    const third = client.prompt(session, "/history");
    expect(streamed((await first).updates)).toEqual(upTo(50));
    expect(streamed((await second).updates.slice(-21))).toEqual(upTo(20));
    expect(textOf((await third).updates)).toMatch(/prompts: 2\nprompts: 3\n$/);
    const { end } = await first;
    const later = client.updates(session, end, (await second).end);
    expect(streamed(later)).toEqual(upTo(20));
    expect((await second).end).toBeLessThan((await third).end);
    const kinds = (await readLog(gateway, session)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "turn.started")).toHaveLength(3);
    expect(kinds.filter((kind) => kind === "turn.completed")).toHaveLength(3);
  });

  test("a cancel also ends the prompts that wait", async () => {
    const session = await client.newSession();
    const running = client.prompt(session, "/wait");
    const waiting = client.prompt(session, "never said");
    await client.hears(session, "Waiting");
    await client.cancel(session);
    expect((await running).stopReason).toBe("cancelled");
    expect((await waiting).stopReason).toBe("cancelled");
    expect((await client.prompt(session, "/history")).updates).toMatchObject([
      { content: { text: "prompts: 2\n" } },
    ]);
  });

  test("a client changes modes and config options", async () => {
    const opened = await client.openSession();
    const { sessionId } = opened;
    expect(opened.modes).toMatchObject({ currentModeId: "ask" });
    expect(opened.configOptions).toContainEqual(expect.objectContaining({ id: "model" }));

    await client.agent.request(methods.agent.session.setMode, { sessionId, modeId: "architect" });
    await client.updated(sessionId, (update) => isUpdate(update, "current_mode_update"));
    expect(client.updates(sessionId)).toContainEqual({
      sessionUpdate: "current_mode_update",
      currentModeId: "architect",
    });
    const change = { sessionId, configId: "model", value: "demo-large" };
    const changed = await client.agent.request(methods.agent.session.setConfigOption, change);
    expect(changed).toMatchObject({
      configOptions: expect.arrayContaining([expect.objectContaining({ currentValue: "demo-large" })]),
    });
    await expect(
      client.agent.request(methods.agent.session.setMode, { sessionId, modeId: "none" }),
    ).rejects.toMatchObject({ code: -32602, data: { modeId: "none" } });
    const { updates } = await client.prompt(sessionId, "/mode code\n/config thought_level high");
    expect(updates).toMatchObject([
      { sessionUpdate: "current_mode_update", currentModeId: "code" },
      { sessionUpdate: "config_option_update" },
    ]);
  });

  test("slash commands are announced", async () => {
    const session = await client.newSession();
    await client.updated(session, (update) => isUpdate(update, "available_commands_update"));
  });

  test("a picture of 3 MB arrives intact", async () => {
    const session = await client.newSession();
    const { updates } = await client.prompt(session, "/image 3mb");
    const data = png(3 * 1024 * 1024);
    expect(data.length).toBeGreaterThan(3_000_000);
    const [picture] = updates.flatMap((update) =>
      update.sessionUpdate === "agent_message_chunk" && update.content.type === "image" ? update.content : [],
    );
    expect(picture?.data === data).toBe(true);
  });

  test("a prompt of 3 MB reaches the agent intact", async () => {
    const session = await client.newSession();
    const data = png(3 * 1024 * 1024);
    const text = `/read none ${randomUUID()}`;
    await client.agent.request(methods.agent.session.prompt, {
      sessionId: session,
      prompt: [
        { type: "text", text: `/echo ${text}` },
        { type: "image", mimeType: "image/png", data },
      ],
    });
    const echoed = textOf(client.updates(session));
    expect(echoed.includes(data)).toBe(true);
    expect(echoed).toContain(text);
  });

  test("characters split by the agent's writes arrive whole", async () => {
    const session = await client.newSession();
    expect(textOf((await client.prompt(session, "/split")).updates)).toBe("split: é 漢 🙂 done");
  });

  test("files the agent writes through the client are in the workspace", async () => {
    const session = await client.newSession();
    const [name, text] = [`${randomUUID()}.txt`, `written ${randomUUID()}`];
    const { updates } = await client.prompt(session, `/edit ${name} ${text}\n/read ${name}`);
    expect(readFileSync(join(gateway.root, name), "utf8")).toBe(`${text}\n`);
    expect(updates).toContainEqual(
      expect.objectContaining({
        status: "completed",
        content: [{ type: "content", content: { type: "text", text: `${text}\n` } }],
      }),
    );
    const operations = (await readLog(gateway, session)).filter(({ kind }) => kind.startsWith("client.fs."));
    // The file did not exist when the agent first asked for it.
    expect(operations.map(({ kind, payload }) => [kind, payload.ok])).toEqual([
      ["client.fs.read", false],
      ["client.fs.write", true],
      ["client.fs.read", true],
    ]);
  });

  test("terminals run in the workspace", async () => {
    const session = await client.newSession();
    const word = randomUUID();
    const { updates } = await client.prompt(session, `/terminal echo ${word}; pwd; exit 3`);
    expect(textOf(updates)).toBe(
      `Exit code 3, signal none, output:\n${word}\n${realpathSync(gateway.root)}\n`,
    );
  });

  test("an error of the agent reaches the client as it is", async () => {
    const session = await client.newSession();
    await expect(client.prompt(session, "/error -32077 No more tokens")).rejects.toMatchObject({
      code: -32077,
      message: "No more tokens",
      data: { demo: true },
    });
    expect((await client.prompt(session, "again")).stopReason).toBe("end_turn");
  });

  test("extension requests go to the agent and back", async () => {
    const sessionId = await client.newSession();
    const params = { sessionId, word: randomUUID() };
    await expect(client.agent.request("_demo/echo", params)).resolves.toMatchObject({ word: params.word });
  });
});

describe("clients on several connections", () => {
  test("[I5] two clients whose request ids collide do not interfere", async () => {
    await using one = await Client.connect(gateway);
    await using other = await Client.connect(gateway);
    const [mine, theirs] = await Promise.all([one.newSession(), other.newSession()]);
    one.onPermission = () => select("allow");
    other.onPermission = () => select("reject");
    const turns = await Promise.all([
      one.prompt(mine, "/permission\n/stream 100 50 1\n/refuse"),
      other.prompt(theirs, "/permission\n/stream 100 50 1\n/max_tokens"),
    ]);
    expect(idsOf(one)).toEqual(idsOf(other));
    expect(turns.map(({ stopReason }) => stopReason)).toEqual(["refusal", "max_tokens"]);
    expect(turns.map(({ updates }) => streamed(updates))).toEqual([upTo(100), upTo(100)]);
    expect(textOf(turns[0].updates)).toContain("Permission selected: allow\n");
    expect(textOf(turns[1].updates)).toContain("Permission selected: reject\n");
    expect(one.updates(theirs)).toEqual([]);
    expect(other.updates(mine)).toEqual([]);
  });

  test("[I5] two clients of one session with the same request ids each get their own answer", async () => {
    await using one = await Client.connect(gateway);
    await using other = await Client.connect(gateway);
    const session = await one.newSession();
    await other.load(session);
    const turns = await Promise.all([
      one.prompt(session, "/stream 20 40 1\n/refuse"),
      other.prompt(session, "/stream 20 40 1\n/max_tokens"),
    ]);
    expect(idsOf(one)).toEqual(idsOf(other));
    expect(turns.map(({ stopReason }) => stopReason)).toEqual(["refusal", "max_tokens"]);
    for (const client of [one, other]) {
      await eventually(() => streamed(client.updates(session)).length === 40);
      expect(streamed(client.updates(session))).toEqual([...upTo(20), ...upTo(20)]);
    }
  });

  test("[I3] a session loaded while it streams has no gap and no repetition", async () => {
    await using first = await Client.connect(gateway);
    await using second = await Client.connect(gateway);
    const session = await first.newSession();
    const turn = first.prompt(session, "/stream 20000 100 1");
    await first.hears(session, "000200 ");
    await second.load(session);
    const replayed = streamed(second.updates(session)).at(-1)!;
    await second.hears(session, String(replayed + 200).padStart(6, "0"));
    await first.cancel(session);
    expect((await turn).stopReason).toBe("cancelled");

    const seen = streamed(first.updates(session));
    expect(seen).toEqual(upTo(seen.length));
    await second.hears(session, String(seen.at(-1)).padStart(6, "0"));
    const [prompt] = second.updates(session).filter(isConversation);
    expect(prompt).toMatchObject({
      sessionUpdate: "user_message_chunk",
      content: { text: "/stream 20000 100 1" },
    });
    expect(textOf(second.updates(session))).toBe(textOf(first.updates(session)));
  });

  test("[I7] a client that leaves neither cancels its turn nor answers a permission request", async () => {
    const first = await Client.connect(gateway);
    const session = await first.newSession();
    first.prompt(session, "/permission\n/stream 30 40").catch(() => {});
    await first.receives(isPermissionRequest);
    await first.close();

    await using second = await Client.connect(gateway);
    second.onPermission = () => select("allow");
    await second.load(session);
    await second.hears(session, "000029 ");
    expect(textOf(second.updates(session))).toContain("Permission selected: allow\n");
    await eventually(async () =>
      (await readLog(gateway, session)).some(({ kind }) => kind === "turn.completed"),
    );
  });

  test("[I2] a message unknown to the gateway passes byte for byte, except for the session id", async () => {
    await using client = await RawClient.initialized(gateway);
    const sessionId = await client.newSession(gateway.root);
    const line = (update: string) =>
      `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"${sessionId}","update":${update}}}\n`;
    const from = client.texts.entries.length;
    const prompt = [{ type: "text", text: "/unknown" }];
    const { result } = await client.request("session/prompt", { sessionId, prompt });
    expect(result).toEqual({ stopReason: "end_turn" });
    const isAnnouncement = (text: string) => text.includes("available_commands_update");
    const texts = client.texts.entries.slice(from, -1).filter((text) => !isAnnouncement(text));
    const written = unknownLines({ id: sessionId, line }).map((text) => text.trimEnd());
    expect(texts).toEqual(written);

    await using later = await RawClient.initialized(gateway);
    await later.request("session/load", { sessionId, cwd: gateway.root, mcpServers: [] });
    const replayed = later.texts.entries.slice(1, -1).filter((text) => !isAnnouncement(text));
    expect(replayed.slice(1)).toEqual(written.filter((text) => text.includes("session/update")));
  });
});

describe("the next run of a gateway on the same state", () => {
  let state: string;
  beforeAll(() => {
    state = mkdtempSync(join(tmpdir(), "acp-edge-state-"));
  });
  afterAll(() => rmSync(state, { recursive: true, force: true }));

  test("finds the session, replays it and continues it", async () => {
    const prompt = "/think Hm.\n/stream 300 100\n/tool edit\n/image 700kb";
    await using first = await startGateway({ state });
    const before = await Client.connect(first);
    const session = await before.newSession();
    await before.prompt(session, prompt);
    await before.close();
    const told = before.updates(session).filter(isConversation);
    await first.stop();

    await using second = await startGateway({ state });
    const { sessions } = (await (await second.api("/api/sessions")).json()) as {
      sessions: { sessionId: string }[];
    };
    expect(sessions.map(({ sessionId }) => sessionId)).toContain(session);

    const asked = { sessionUpdate: "user_message_chunk", content: { type: "text", text: prompt } };
    await using exact = await Client.connect(second);
    await exact.load(session, 0);
    expect(exact.updates(session).filter(isConversation)).toEqual([asked, ...told]);

    await using after = await Client.connect(second);
    await after.load(session);
    const replayed = after.updates(session).filter(isConversation);
    expect(replayed[0]).toEqual(asked);
    expect(textOf(replayed)).toBe(textOf(told));
    expect(replayed.slice(1).filter(isNoText)).toEqual(told.filter(isNoText));

    const { updates, stopReason } = await after.prompt(session, "/stream 10 40");
    expect(stopReason).toBe("end_turn");
    expect(streamed(updates)).toEqual(upTo(10));
    // The demo agent keeps no session across a restart here, and the client learns of that.
    expect(updates).toContainEqual(
      expect.objectContaining({ _meta: expect.objectContaining({ "acp-edge/event": "session.rebound" }) }),
    );
    const logged = loggedUpdates(await readLog(second, session));
    expect(textOf(logged)).toBe(textOf(told) + textOf(updates));
  });
});

function isUpdate(update: SessionUpdate | undefined, kind: SessionUpdate["sessionUpdate"]): boolean {
  return update?.sessionUpdate === kind;
}

/** An agent may announce slash commands at any time: after any response and at any start. */
function isConversation(update: SessionUpdate): boolean {
  return !isUpdate(update, "available_commands_update");
}

/** The updates that a replay never merges. */
function isNoText(update: SessionUpdate): boolean {
  return textOf([update]) === "";
}

/** The ids of a client's requests. */
function idsOf(client: Client): unknown[] {
  return client.wire.entries.flatMap(({ by, message }) =>
    by === "us" && message.method && message.id !== undefined ? [message.id] : [],
  );
}
