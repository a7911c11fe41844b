import { describe, expect, onTestFinished, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { fixture, isAlive, startHost } from "./harness.ts";

describe("an agent process", () => {
  test("is initialized by the host, and all its output becomes items", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("hello");
    await gateway.until(() => session.frames.find((frame) => frame.echo));
    expect(session.hellos).toEqual([
      {
        t: "hello",
        run: expect.any(String),
        agent: "fixture",
        host: "test-host",
        root: expect.any(String),
        processRequest: 1,
        delivered: 0,
        draining: false,
      },
    ]);
    expect(session.items.map((item) => item.slice(0, 10))).toEqual([
      '["started"',
      '["sent","{',
      '{"jsonrpc"',
      '{"echo":{"',
    ]);
    expect(session.events("started")).toEqual([
      { pid: expect.any(Number), command: expect.stringContaining("agent.mjs") },
    ]);
    expect(JSON.parse(session.events<string>("sent")[0] as string)).toMatchObject({
      id: 0,
      method: "initialize",
      params: {
        protocolVersion: 1,
        clientCapabilities: {
          fs: { readTextFile: true, writeTextFile: true },
          terminal: true,
          elicitation: { form: {}, url: {} },
        },
      },
    });
  });

  test("runs in the workspace with the host's environment, without secrets", async () => {
    process.env.ACP_EDGE_HOST_TOKEN = "secret";
    const { gateway, root } = await startHost();
    const session = await gateway.open("s");
    session.tell("environment");
    const { environment, cwd } = await gateway.until(() => session.frames.find((frame) => frame.environment));
    expect(environment).toContain("PATH");
    expect(environment).not.toContain("ACP_EDGE_HOST_TOKEN");
    expect(cwd).toBe(root);
  });

  test("reports its exit last, with the end of its stderr", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("exit", { code: 7 });
    await gateway.until(() => session.exit);
    expect(session.items.at(-1)).toBe('["exit",{"code":7,"signal":null,"stderr":"last words\\n"}]');
    await gateway.until(() => session.socket === undefined);
  });

  test("ends when the session stops it", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    session.stop();
    await gateway.until(() => session.exit && session.socket === undefined);
    expect(session.exit).toEqual({ code: 0, signal: null, stderr: "" });
  });

  test("is killed if it ignores SIGTERM", async () => {
    const { gateway } = await startHost({ agents: [fixture("fixture", "ignores-sigterm")] });
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    session.stop();
    await gateway.until(() => session.exit);
    expect(session.exit).toEqual({ code: null, signal: "SIGKILL", stderr: "" });
  });

  test("ends together with its whole process group", async () => {
    const { gateway, host } = await startHost();
    const session = await gateway.open("s");
    session.tell("launch");
    const { native } = await gateway.until(() => session.frames.find((frame) => frame.native));
    expect(isAlive(native as number)).toBe(true);
    session.stop();
    await gateway.until(() => session.exit);
    await host.close();
    expect(isAlive(native as number)).toBe(false);
  });

  test("ends although a process outside the group holds its stdout", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("launch", { detached: true });
    const { native } = await gateway.until(() => session.frames.find((frame) => frame.native));
    onTestFinished(() => void process.kill(native as number, "SIGKILL"));
    session.tell("exit", { code: 5 });
    await gateway.until(() => session.exit);
    expect(session.exit).toMatchObject({ code: 5 });
  });

  test("leaves no processes behind when it exits on its own", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("launch");
    const { native } = await gateway.until(() => session.frames.find((frame) => frame.native));
    session.tell("exit", { code: 1 });
    await gateway.until(() => session.exit);
    expect(isAlive(native as number)).toBe(false);
  });
});

describe("the reason why an agent failed", () => {
  const start = async (...args: string[]) => {
    const { gateway } = await startHost({
      agents: [fixture("fixture", ...args)],
      timing: { initializeMs: 300 },
    });
    const session = await gateway.open("s");
    await gateway.until(() => session.exit);
    return session;
  };

  test("says that the agent's command does not exist", async () => {
    const { gateway } = await startHost({
      agents: [{ id: "fixture", name: "none", command: ["/no/such/agent"], default: false }],
    });
    const session = await gateway.open("s");
    await gateway.until(() => session.exit);
    expect(session.items).toHaveLength(1);
    expect(session.exit).toEqual({
      code: null,
      signal: null,
      error: "the agent could not be started: spawn /no/such/agent ENOENT",
      stderr: "",
    });
    await gateway.until(() => gateway.control.find(({ t }) => t === "agent_failed"));
  });

  test("says that the host does not offer the agent", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s", "gemini");
    await gateway.until(() => session.exit);
    expect(session.items).toHaveLength(1);
    expect(session.exit?.error).toContain('this host has no agent "gemini"');
  });

  test("says that the agent exited immediately", async () => {
    expect((await start("exits")).exit).toEqual({
      code: 3,
      signal: null,
      error: "the agent ended before it answered initialize",
      stderr: "cannot go on\n",
    });
  });

  test("says that the agent never answered initialize", async () => {
    expect((await start("silent")).exit?.error).toBe("the agent did not answer initialize within 300 ms");
  });

  test("says that the agent refused to initialize", async () => {
    const session = await start("refuses");
    expect(session.frames).toHaveLength(1);
    expect(session.exit?.error).toContain("not today");
  });

  test("says that the agent speaks another protocol version", async () => {
    expect((await start("version-2")).exit?.error).toBe("the agent speaks protocol version 2, not 1");
  });
});

describe("an agent's output", () => {
  const write = async (...chunks: (string | Buffer)[]) => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("write", { chunks: chunks.map((chunk) => Buffer.from(chunk as string).toString("base64")) });
    session.tell("end");
    await gateway.until(() => session.frames.find((frame) => frame.echo));
    return session.items.slice(3, -1);
  };

  test("arrives byte for byte, independently of chunk boundaries", async () => {
    const line = '{"text":"é🙂\\u0000","big":12345678901234567890,"_meta":{}}';
    const bytes = [...Buffer.from(`${line}\n`)].map((byte) => Buffer.from([byte]));
    expect(await write(...bytes, `${line}\r\n\n  \n${line}\n`)).toEqual([line, line, line]);
  });

  test("may contain noise between frames", async () => {
    const items = await write("hello\n", Buffer.from([0x7b, 0xff, 0x0a]), '[1]\n{"a":1}\n');
    expect(items).toEqual(['["noise","hello"]', '["noise","{\ufffd"]', '["noise","[1]"]', '{"a":1}']);
  });

  test("may contain a line that is too long for a frame", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("stream", { count: 1, size: DEFAULT_LIMITS.frameChars });
    await gateway.until(() => session.frames.find((frame) => frame.streamed));
    expect(session.events<string>("dropped")).toEqual([
      expect.stringMatching(/^\(a line of 41943\d\d bytes/),
    ]);
  });

  test("may contain a line that is too long for the session, which takes less than the host", async () => {
    const { gateway } = await startHost();
    gateway.session("s").frameChars = 10_000;
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    session.tell("stream", { count: 1, size: 20_000 });
    await gateway.until(() => session.frames.find((frame) => frame.streamed));
    expect(session.events<string>("dropped")).toEqual([expect.stringMatching(/^\(a line of 20\d\d\d bytes/)]);
  });

  test("is sent as one message per read", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    const before = session.messages.length;
    const lines = '{"a":1}\n'.repeat(500);
    session.tell("write", { chunks: [Buffer.from(lines).toString("base64")] });
    await gateway.until(() => session.items.length === 503);
    expect(session.messages.slice(before)).toEqual([{ first: 4, count: 500 }]);
  });

  test("is summarized if it is endless noise", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    session.tell("noise", { count: 5000 });
    session.tell("exit", { code: 0 });
    await gateway.until(() => session.exit);
    const noise = session.events<string>("noise");
    expect(noise.slice(0, 50)).toEqual(Array.from({ length: 50 }, (_, n) => `noise ${n}`));
    expect(noise.at(-1)).toMatch(/^\(\d+ more lines like these were dropped\)$/);
    expect(noise.length).toBeLessThan(200);
  });
});
