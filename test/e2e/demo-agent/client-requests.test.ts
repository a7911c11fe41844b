import {
  type ClientApp,
  type CreateElicitationRequest,
  client,
  methods,
  RequestError,
  type RequestPermissionRequest,
} from "@agentclientprotocol/sdk";
import { afterEach, describe, expect, test } from "vitest";
import { DemoSession } from "./harness.ts";

const started: DemoSession[] = [];
afterEach(async () => {
  for (const session of started.splice(0)) await session.agent.stop();
});

async function start(options: Parameters<typeof DemoSession.start>[0]): Promise<DemoSession> {
  const session = await DemoSession.start(options);
  started.push(session);
  return session;
}

const never = () => new Promise<never>(() => {});

describe("/permission of the demo agent", () => {
  const answering = (optionId: string, seen: RequestPermissionRequest[] = []): ClientApp =>
    client().onRequest(methods.client.session.requestPermission, ({ params }) => {
      seen.push(params);
      return { outcome: { outcome: "selected", optionId } };
    });

  test("offers all four kinds of option and reports the chosen one", async () => {
    const seen: RequestPermissionRequest[] = [];
    const session = await start({ app: answering("allow-always", seen) });
    const { text, updates, stopReason } = await session.prompt("/permission Remove the roof");
    expect(seen[0]?.options.map(({ kind }) => kind)).toEqual([
      "allow_once",
      "allow_always",
      "reject_once",
      "reject_always",
    ]);
    expect(updates[0]).toMatchObject({ title: "Remove the roof", toolCallId: seen[0]?.toolCall.toolCallId });
    expect(updates[1]).toMatchObject({ status: "completed" });
    expect(text).toBe("Permission selected: allow-always\n");
    expect(stopReason).toBe("end_turn");
  });

  test("a rejection fails the tool call", async () => {
    const session = await start({ app: answering("reject") });
    const { text, updates } = await session.prompt("/permission");
    expect(updates[1]).toMatchObject({ status: "failed" });
    expect(text).toBe("Permission selected: reject\n");
  });

  test("the outcome cancelled ends the turn as cancelled", async () => {
    const app = client().onRequest(methods.client.session.requestPermission, () => ({
      outcome: { outcome: "cancelled" },
    }));
    const { text, stopReason } = await (await start({ app })).prompt("/permission");
    expect([text, stopReason]).toEqual(["Permission cancelled.\n", "cancelled"]);
  });

  test("a client without the method is reported", async () => {
    expect((await (await start({})).prompt("/permission")).text).toContain("(-32601)");
  });

  test("session/cancel withdraws a pending request and ends the turn without its answer", async () => {
    const session = await start({ app: client().onRequest(methods.client.session.requestPermission, never) });
    const turn = session.prompt("/permission");
    const { id } = JSON.parse(
      await session.agent.until((line) => line.includes("session/request_permission")),
    );
    await session.cancel();
    const { stopReason, lines } = await turn;
    expect(stopReason).toBe("cancelled");
    expect(lines.at(-2)).toBe(
      JSON.stringify({ jsonrpc: "2.0", method: "$/cancel_request", params: { requestId: id } }),
    );
  });
});

describe("the demo agent's requests for files", () => {
  const withFiles = (files: Map<string, string>): ClientApp =>
    client()
      .onRequest(methods.client.fs.readTextFile, ({ params }) => {
        const content = files.get(params.path);
        if (content === undefined) throw RequestError.resourceNotFound(params.path);
        return { content };
      })
      .onRequest(
        methods.client.fs.writeTextFile,
        ({ params }) => void files.set(params.path, params.content),
      );

  test("/edit creates a missing file, then extends it, with a diff", async () => {
    const files = new Map<string, string>();
    const session = await start({ app: withFiles(files) });
    const { updates, text } = await session.prompt("/edit a.txt one two");
    expect(files.get("/tmp/a.txt")).toBe("one two\n");
    expect(updates[1]).toMatchObject({
      content: [{ type: "diff", path: "/tmp/a.txt", oldText: null, newText: "one two\n" }],
    });
    expect(updates[2]).toMatchObject({ status: "completed" });
    expect(text).toBe("Wrote 8 characters to /tmp/a.txt\n");
    await session.prompt("/edit /tmp/a.txt");
    expect(files.get("/tmp/a.txt")).toBe("one two\nEdited by the demo agent.\n");
  });

  test("/read reports the content of a file", async () => {
    const session = await start({ app: withFiles(new Map([["/tmp/b.txt", "text"]])) });
    const { updates, text } = await session.prompt("/read b.txt");
    expect(updates[1]).toMatchObject({ content: [{ content: { type: "text", text: "text" } }] });
    expect(text).toBe("Read 4 characters from /tmp/b.txt\n");
    expect((await session.prompt("/read none.txt")).text).toContain("(-32002)");
  });

  test("a missing capability of the client is named, and no request is sent", async () => {
    const session = await start({ capabilities: {} });
    const turn = await session.prompt(
      "/edit a\n/read a\n/terminal ls\n/elicit\n/elicit url\n/notice x\n/compact",
    );
    expect(turn.text.match(/The client has no \S+ capability/g)?.map((text) => text.split(" ")[4])).toEqual([
      "fs.writeTextFile",
      "fs.readTextFile",
      "terminal",
      "elicitation.form",
      "elicitation.url",
      "session.notices",
      "session.compaction",
    ]);
    const { configOptions } = await session.peer.request("session/new", { cwd: "/tmp", mcpServers: [] });
    expect(configOptions?.map(({ type }) => type)).toEqual(["select", "select"]);
  });
});

describe("the demo agent's requests for a terminal", () => {
  const withTerminal = (calls: string[], exit: () => Promise<{ exitCode: number }>): ClientApp =>
    client()
      .onRequest(methods.client.terminal.create, ({ params }) => {
        calls.push(`create ${params.command} ${params.args?.join(" ")} in ${params.cwd}`);
        return { terminalId: "t1" };
      })
      .onRequest(methods.client.terminal.waitForExit, exit)
      .onRequest(methods.client.terminal.output, () => ({ output: "hi\n", truncated: false }))
      .onRequest(
        methods.client.terminal.release,
        ({ params }) => void calls.push(`release ${params.terminalId}`),
      );

  test("/terminal runs a command, reports its output and releases the terminal", async () => {
    const calls: string[] = [];
    const session = await start({ app: withTerminal(calls, async () => ({ exitCode: 7 })) });
    const { updates, text } = await session.prompt("/terminal echo hi; exit 7");
    expect(calls).toEqual(["create sh -c echo hi; exit 7 in /tmp", "release t1"]);
    expect(updates[1]).toMatchObject({ content: [{ type: "terminal", terminalId: "t1" }] });
    expect(updates[2]).toMatchObject({ status: "failed", rawOutput: { exitCode: 7, output: "hi\n" } });
    expect(text).toBe("Exit code 7, signal none, output:\nhi\n");
  });

  test("a cancel releases the terminal", async () => {
    const calls: string[] = [];
    const session = await start({ app: withTerminal(calls, never) });
    const turn = session.prompt("/terminal sleep 100");
    await session.agent.until((line) => line.includes("terminal/wait_for_exit"));
    await session.cancel();
    expect((await turn).stopReason).toBe("cancelled");
    await session.agent.until((line) => line.includes("terminal/release"));
  });
});

describe("the demo agent's questions", () => {
  test("/elicit asks by session, by request, and by url", async () => {
    const seen: CreateElicitationRequest[] = [];
    const app = client().onRequest(methods.client.elicitation.create, ({ params }) => {
      seen.push(params);
      return { action: "accept", content: { name: "Ada" } };
    });
    const session = await start({ app });
    const { text } = await session.prompt("/elicit");
    expect(text).toBe('Elicitation answered: {"action":"accept","content":{"name":"Ada"}}\n');
    await session.prompt("/elicit request");
    const { lines } = await session.prompt("/elicit url");
    expect(seen.map((request) => request.mode)).toEqual(["form", "form", "url"]);
    expect(seen[0]).toMatchObject({ sessionId: session.id });
    expect(seen[1]).toMatchObject({ requestId: expect.any(Number) });
    expect(lines.some((line) => line.includes("elicitation/complete"))).toBe(true);
  });

  test("/ask reports the answer or the error", async () => {
    const app = client().onRequest(
      "_demo/ask",
      (params) => params as { question: string },
      ({ params }) => ({ answer: params.question.length }),
    );
    const session = await start({ app });
    expect((await session.prompt("/ask why")).text).toBe('_demo/ask answered: {"answer":3}\n');
    expect((await (await start({})).prompt("/ask")).text).toContain("_demo/ask failed:");
  });
});
