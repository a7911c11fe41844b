import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { client, methods } from "@agentclientprotocol/sdk";
import { afterEach, describe, expect, test } from "vitest";
import { DemoAgent, DemoSession, updateOf } from "./harness.ts";

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function start(options: Parameters<typeof DemoSession.start>[0] = {}): Promise<DemoSession> {
  const session = await DemoSession.start(options);
  cleanups.push(() => session.agent.stop());
  return session;
}

function launch(misbehave?: string): DemoAgent {
  const agent = new DemoAgent(misbehave ? { DEMO_AGENT_MISBEHAVE: misbehave } : {});
  cleanups.push(() => agent.stop());
  return agent;
}

async function stateDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "demo-agent-"));
  cleanups.push(() => rm(directory, { recursive: true }));
  return directory;
}

describe("the demo agent's turns", () => {
  test.each(["/refuse:refusal", "/max_tokens:max_tokens", "/max_turn_requests:max_turn_requests"])(
    "%s",
    async (pair) => {
      const [prompt = "", stopReason] = pair.split(":");
      expect((await (await start()).prompt(prompt)).stopReason).toBe(stopReason);
    },
  );

  test("/error answers with the given error, and the session continues", async () => {
    const session = await start();
    await expect(session.prompt("/error -32000 please log in")).rejects.toMatchObject({
      code: -32000,
      message: "please log in",
    });
    await expect(session.prompt("/error")).rejects.toMatchObject({ code: -32603 });
    expect((await session.prompt("hi")).stopReason).toBe("end_turn");
  });

  test.each(["/wait", "/slow 60", "/stream 1000000 100 1", "/stream 1000000000 100", "/flood 1000000000"])(
    "%s is cancelled, and the session goes on",
    async (prompt) => {
      const session = await start();
      const from = session.agent.lines.length;
      const turn = session.prompt(prompt);
      await session.agent.until(() => true, from);
      await session.cancel();
      expect((await turn).stopReason).toBe("cancelled");
      expect((await session.prompt("/pid")).stopReason).toBe("end_turn");
    },
  );

  test("a cancel skips the remaining commands", async () => {
    const session = await start();
    const turn = session.prompt("/wait\n/think never");
    await session.said("Waiting");
    await session.cancel();
    expect((await turn).lines.join()).not.toContain("never");
  });

  test("$/cancel_request of the prompt is answered with -32800", async () => {
    const session = await start();
    const withdraw = new AbortController();
    const turn = session.peer.request(
      methods.agent.session.prompt,
      { sessionId: session.id, prompt: [{ type: "text", text: "/wait" }] },
      { cancellationSignal: withdraw.signal },
    );
    await session.said("Waiting");
    withdraw.abort();
    await expect(turn).rejects.toMatchObject({ code: -32800 });
  });

  test("/hang ignores the cancel while other sessions work, and a second prompt is refused", async () => {
    const session = await start();
    let settled = false;
    void session
      .prompt("/hang")
      .catch(() => {})
      .finally(() => {
        settled = true;
      });
    await session.said("Hanging");
    await session.cancel();
    await expect(session.prompt("hi")).rejects.toMatchObject({ code: -32600 });
    const other = await session.peer.request(methods.agent.session.new, { cwd: "/", mcpServers: [] });
    const prompt = [{ type: "text" as const, text: "/cwd" }];
    await session.peer.request(methods.agent.session.prompt, { sessionId: other.sessionId, prompt });
    expect(settled).toBe(false);
  });

  test("a session that does not exist is refused", async () => {
    const session = await start();
    await expect(
      session.peer.request(methods.agent.session.prompt, { sessionId: "none", prompt: [] }),
    ).rejects.toMatchObject({ code: -32002, data: { sessionId: "none" } });
  });

  test("closing a session cancels its turn", async () => {
    const session = await start();
    const turn = session.prompt("/wait");
    await session.said("Waiting");
    await session.peer.request(methods.agent.session.close, { sessionId: session.id });
    expect((await turn).stopReason).toBe("cancelled");
  });
});

describe("the demo agent's process", () => {
  test("/crash exits during the turn, after its message", async () => {
    const session = await start();
    const turn = session.prompt("/crash 9");
    await expect(turn).rejects.toThrow();
    expect(await session.agent.exit()).toEqual([9, null]);
    await session.said("Crashing");
  });

  test("ends with stdin, even during a turn", async () => {
    const session = await start();
    session.prompt("/hang").catch(() => {});
    await session.said("Hanging");
    session.agent.child.stdin!.destroy();
    expect(await session.agent.exit()).toEqual([0, null]);
  });

  test("ends on SIGTERM", async () => {
    const session = await start();
    session.agent.child.kill("SIGTERM");
    expect(await session.agent.exit()).toEqual([0, null]);
  });

  test("ends when its reader has stopped reading", async () => {
    const agent = launch();
    const say = (message: object) =>
      agent.child.stdin!.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const answer = async () => String((await once(agent.child.stdout!, "data"))[0]);
    say({ id: 1, method: "initialize", params: { protocolVersion: 1 } });
    await answer();
    say({ id: 2, method: "session/new", params: { cwd: "/tmp", mcpServers: [] } });
    const sessionId = /"sessionId":"([^"]+)"/.exec(await answer())?.[1];
    agent.child.stdout!.pause();
    say({
      id: 3,
      method: "session/prompt",
      params: { sessionId, prompt: [{ type: "text", text: "/stream 1000000 1000" }] },
    });
    agent.child.stdin!.end();
    expect(await agent.exit()).toEqual([0, null]);
  });
});

describe("the demo agent's stored sessions", () => {
  test("cannot be loaded without a directory", async () => {
    const agent = launch();
    const peer = agent.connect();
    const { agentCapabilities } = await peer.request(methods.agent.initialize, { protocolVersion: 1 });
    expect(agentCapabilities?.loadSession).toBe(false);
    await expect(
      peer.request(methods.agent.session.load, { sessionId: "x", cwd: "/", mcpServers: [] }),
    ).rejects.toMatchObject({ code: -32601 });
  });

  test("are replayed line for line before session/load is answered, even after a crash", async () => {
    const env = { DEMO_AGENT_STATE: await stateDirectory() };
    const first = await start({ env });
    const one = await first.prompt("/unknown\n/tool\n/mode code\n/notice gone");
    const two = await first.prompt("/stream 2000 200");
    await expect(first.prompt("/crash")).rejects.toThrow();

    const second = await start({ env, load: first.id });
    const response = second.agent.lines.findIndex((line) =>
      line.includes('"currentModeId":"code","availableModes"'),
    );
    const replayed = second.agent.lines.slice(1, response);
    const user = replayed.filter((line) => line.includes("user_message_chunk"));
    expect(user.map((line) => JSON.parse(line).params.update.content.text)).toEqual([
      "/unknown\n/tool\n/mode code\n/notice gone",
      "/stream 2000 200",
      "/crash",
    ]);
    const sent = [...one.lines, ...two.lines].filter((line) => updateOf(line) && !line.includes('"notice"'));
    expect(replayed.filter((line) => !user.includes(line)).slice(0, -1)).toEqual(sent);
    expect(replayed.at(-1)).toContain("Crashing.");
    expect((await second.prompt("/history")).text).toBe("prompts: 4\n");
  });

  test("resume does not replay; list and delete know the session", async () => {
    const env = { DEMO_AGENT_STATE: await stateDirectory() };
    const first = await start({ env });
    await first.prompt("/title Mine");
    await first.agent.stop();

    const agent = new DemoAgent(env);
    cleanups.push(() => agent.stop());
    const peer = agent.connect();
    await peer.request(methods.agent.initialize, { protocolVersion: 1 });
    const { sessions } = await peer.request(methods.agent.session.list, {});
    expect(sessions).toMatchObject([{ sessionId: first.id, cwd: "/tmp", title: "Mine" }]);

    await peer.request(methods.agent.session.resume, { sessionId: first.id, cwd: "/tmp" });
    expect(agent.lines.slice(0, 3).some((line) => line.includes("user_message_chunk"))).toBe(false);
    await peer.request(methods.agent.session.delete, { sessionId: first.id });
    expect((await peer.request(methods.agent.session.list, {})).sessions).toEqual([]);
    await expect(
      peer.request(methods.agent.session.load, { sessionId: first.id, cwd: "/tmp", mcpServers: [] }),
    ).rejects.toMatchObject({ code: -32002 });
    await expect(
      peer.request(methods.agent.session.load, {
        sessionId: "../../etc/passwd",
        cwd: "/tmp",
        mcpServers: [],
      }),
    ).rejects.toMatchObject({ code: -32002 });
  });
});

describe("the demo agent's bad habits", () => {
  test("exit ends the process before any answer", async () => {
    const agent = launch("exit");
    expect(await agent.exit()).toEqual([3, null]);
    await agent.untilStderr("refusing to start");
  });

  test("silent reads and says nothing until stdin ends", async () => {
    const agent = launch("silent");
    let output = "";
    agent.child.stdout!.on("data", (chunk) => {
      output += chunk;
    });
    agent.child.stdin!.end('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n');
    expect(await agent.exit()).toEqual([0, null]);
    expect(output).toBe("");
  });

  test("garbage comes first, then normal work", async () => {
    const session = await start({ env: { DEMO_AGENT_MISBEHAVE: "garbage" } });
    expect(session.agent.lines[0]).toBe("Starting demo agent…");
    expect(session.agent.lines[2]).toBe("{ not json");
    expect((await session.prompt("hi")).stopReason).toBe("end_turn");
  });

  test("early-update comes before the response to session/new", async () => {
    const session = await start({ env: { DEMO_AGENT_MISBEHAVE: "early-update" } });
    expect(session.agent.lines[1]).toContain("available_commands_update");
    expect(session.agent.lines[2]).toContain('"availableModes"');
  });

  test("version2 answers with protocol version 2", async () => {
    const peer = launch("version2").connect();
    const { protocolVersion } = await peer.request(methods.agent.initialize, { protocolVersion: 1 });
    expect(protocolVersion).toBe(2);
  });

  test("ids are UUIDs at the end of the object, for responses and cancels", async () => {
    const answers = [{ outcome: { outcome: "selected" as const, optionId: "allow" } }];
    const app = client().onRequest(methods.client.session.requestPermission, () =>
      answers.length > 0 ? answers.pop()! : new Promise<never>(() => {}),
    );
    const session = await start({ app, env: { DEMO_AGENT_MISBEHAVE: "ids" } });
    const { lines, text } = await session.prompt("/permission");
    expect(text).toBe("Permission selected: allow\n");
    expect(lines.find((line) => line.includes("request_permission"))).toMatch(/,"id":"[0-9a-f-]{36}"\}$/);

    const from = session.agent.lines.length;
    const turn = session.prompt("/permission");
    const { id } = JSON.parse(await session.agent.until((line) => line.includes("request_permission"), from));
    await session.cancel();
    expect((await turn).lines.join()).toContain(`"requestId":"${id}"`);
  });

  test("stubborn survives SIGTERM and the end of stdin", async () => {
    const session = await start({ env: { DEMO_AGENT_MISBEHAVE: "stubborn" } });
    session.agent.child.kill("SIGTERM");
    expect((await session.prompt("/pid")).stopReason).toBe("end_turn");
    session.agent.child.stdin!.end();
    session.agent.child.kill("SIGKILL");
    expect(await session.agent.exit()).toEqual([null, "SIGKILL"]);
  });
});
