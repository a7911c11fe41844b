import { exports } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import * as container from "../../fixtures/dialects/container-data-model.ts";
import * as localServers from "../../fixtures/dialects/local-mcp-servers.ts";
import type { Json } from "../../fixtures/json.ts";
import { workspaceName } from "../fixtures.ts";
import type { Host } from "../peers/host.ts";
import { type EventReader, HttpPeer } from "../peers/http-client.ts";
import { token } from "../tokens.ts";
import { forSession, fromAgent, hostOf, json, text } from "./fixtures.ts";

describe("a dialect over HTTP", () => {
  test("carries the messages of the container data model on event streams", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["claude"]);
    const bearer = `Bearer ${await token({ workspace })}`;
    const call = (method: string, headers: Record<string, string>, body: string | null = null) =>
      exports.default.fetch("https://edge.test/acp", {
        method,
        headers: { Authorization: bearer, "Content-Type": "application/json", ...headers },
        body,
      });
    const initialized = await call("POST", {}, container.initialize);
    expect(((await initialized.json()) as Json).result).toMatchObject({ protocolVersion: "0.3.1" });
    const connection = { "Acp-Connection-Id": initialized.headers.get("Acp-Connection-Id") as string };
    const opening = call("POST", connection, container.newSession);
    const agent = await host.agent();
    agent.answer(await agent.line(), { sessionId: "agent-session" });
    expect((await opening).status).toBe(202);
    const stream = { ...connection, Accept: "text/event-stream" };
    const [opened] = await streamed(await call("GET", stream), 1);
    const { sessionId } = json(opened?.data as string).result as { sessionId: string };

    const session = { "Acp-Session-Id": sessionId };
    const prompt = forSession(container.prompt, sessionId);
    expect((await call("POST", { ...connection, ...session }, prompt)).status).toBe(202);
    const request = await agent.line();
    fromAgent(agent, { sessionUpdate: "agent_thought_chunk", content: text("Let me see") });
    agent.answer(request, { stopReason: "end_turn" });
    const events = await streamed(await call("GET", { ...stream, ...session }), 3);
    expect(events.map(({ data }) => json(data as string))).toEqual([
      json(forSession(container.thinking, sessionId)),
      json(forSession(container.completed, sessionId)),
      { jsonrpc: "2.0", id: 3, result: { stopReason: "end_turn" } },
    ]);
    // An event that becomes two messages ends with the second: a reader that resumes from the first gets both again.
    const [thinking, completed, answer] = events.map(({ id }) => id);
    expect(completed).toBe(thinking);
    expect(answer).not.toBe(completed);
  });

  /** Posts a printed message, to its session if it names one. */
  async function postPrinted(peer: HttpPeer, printed: string, sessionId?: string): Promise<void> {
    const message = sessionId === undefined ? printed : forSession(printed, sessionId);
    expect((await peer.post(message, sessionId)).status).toBe(202);
  }

  async function openOverHttp(peer: HttpPeer, host: Host, newSession: string, result: Json = {}) {
    const own = await peer.stream();
    await postPrinted(peer, newSession);
    const agent = await host.agent();
    const request = await agent.line();
    agent.answer(request, { sessionId: "agent-session", ...result });
    const response = (await messages(own, json(newSession).id)).at(-1) as Json;
    const { sessionId } = response.result as { sessionId: string };
    return { own, agent, request, response, sessionId };
  }

  const messages = async (stream: EventReader, id: unknown) =>
    (await stream.until(id)).map(({ message }) => message);

  test("carries errors, permissions, replays and watched turns of the container data model", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["claude"]);
    const peer = await HttpPeer.open(workspace, container.initialize);
    const { agent, sessionId } = await openOverHttp(peer, host, container.newSession);
    const stream = await peer.stream(sessionId);
    const other = await HttpPeer.open(workspace, container.initialize);
    const watched = await other.stream(sessionId);
    const resumed = await other.call("session/resume", { sessionId });
    await watched.until(resumed);

    await postPrinted(peer, container.prompt, sessionId);
    const prompt = await agent.line();
    fromAgent(agent, { sessionUpdate: "agent_message_chunk", content: text("It says hello.") });
    const options = [{ optionId: "o", kind: "allow_once", name: "Allow" }];
    const params = { sessionId: "agent-session", toolCall: { toolCallId: "t", title: "Write" }, options };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 9, method: "session/request_permission", params }));
    const working = json(forSession(container.working, sessionId));
    expect(await stream.take()).toEqual(working);
    const asked = (await stream.take()).params as Json;
    expect(asked).toMatchObject({ requestId: expect.any(String), toolName: expect.any(String) });
    const answer = { requestId: asked.requestId, response: "allow_once" };
    const answered = await peer.call("session/respond_to_permission", answer, sessionId);
    expect(await agent.line()).toMatchObject({ id: 9, result: { outcome: { optionId: "o" } } });
    expect((await stream.until(answered)).at(-1)?.message.result).toEqual({});
    agent.answer(prompt, { stopReason: "end_turn" });
    const completed = json(forSession(container.completed, sessionId));
    expect(await messages(stream, 3)).toEqual([
      completed,
      { jsonrpc: "2.0", id: 3, result: { stopReason: "end_turn" } },
    ]);
    // The watching client sees the prompt and its end, and gets no answer.
    const seen: Json[] = [];
    while ((seen.at(-1)?.params as Json | undefined)?.status !== "completed") seen.push(await watched.take());
    expect(seen).toContainEqual(working);
    expect(seen.at(-1)).toEqual(completed);
    expect(seen.every(({ method }) => method !== undefined)).toBe(true);

    const bad = JSON.stringify({ ...json(container.prompt), id: 4, params: { sessionId, content: 7 } });
    await postPrinted(peer, bad, sessionId);
    expect((await messages(stream, 4)).at(-1)).toMatchObject({ error: { code: -32602 } });

    const late = await HttpPeer.open(workspace, container.initialize);
    const own = await late.stream();
    const replay = await late.stream(sessionId);
    const loaded = await late.call("session/load", { sessionId });
    for (
      let blocks = (json(container.prompt).params as { content: Json[] }).content.length + 2;
      blocks > 0;
    ) {
      expect(await replay.take()).toMatchObject({
        params: { status: "working", content: [expect.anything()] },
      });
      blocks -= 1;
    }
    expect(await replay.take()).toEqual(working);
    expect((await own.until(loaded)).at(-1)?.message.error).toBeUndefined();
  });

  test("carries every message of a client with local MCP servers as in the dialect's example", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["opencode"], json(localServers.initializeResult).result as Json);
    const peer = await HttpPeer.open(workspace, localServers.initialize);
    expect(peer.initialized).toMatchObject(json(localServers.initializeResult));
    const { sessionId: _, ...setup } = json(localServers.newSessionResult).result as Json;
    const opened = await openOverHttp(peer, host, localServers.newSession, setup);
    const { agent, request, response, sessionId } = opened;
    expect(request.params).toMatchObject({
      mcpServers: [{ name: "weather", command: "bun", args: ["x", "@h1deya/mcp-server-weather"], env: [] }],
    });
    const printed = (message: string) => json(forSession(message, sessionId));
    expect(response).toEqual(printed(localServers.newSessionResult));

    const stream = await peer.stream(sessionId);
    await postPrinted(peer, localServers.prompt, sessionId);
    const prompt = await agent.line();
    expect(prompt.params?.prompt).toEqual((json(localServers.prompt).params as Json).prompt);
    for (const message of [localServers.messageChunk, localServers.toolCall, localServers.toolCallUpdate]) {
      agent.items(JSON.stringify(json(forSession(message, "agent-session"))));
      expect(await stream.take()).toEqual(printed(message));
    }
    agent.items(JSON.stringify(json(forSession(localServers.permissionRequest, "agent-session"))));
    const asked = await stream.take();
    expect(asked).toEqual({ ...printed(localServers.permissionRequest), id: asked.id });
    await postPrinted(
      peer,
      JSON.stringify({ ...json(localServers.permissionResponse), id: asked.id }),
      sessionId,
    );
    expect(await agent.line()).toEqual(json(localServers.permissionResponse));
    agent.answer(prompt, json(localServers.promptResponse).result);
    expect(await stream.take()).toEqual(printed(localServers.promptResponse));
    for (const message of [localServers.setMode, localServers.setModel]) {
      await postPrinted(peer, message, sessionId);
      const line = await agent.line();
      expect(line).toEqual({ ...json(forSession(message, "agent-session")), id: line.id });
      const { error } = json(localServers.error);
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: line.id, error }));
      expect(await stream.take()).toEqual({ jsonrpc: "2.0", id: json(message).id, error });
    }
    await postPrinted(peer, localServers.prompt, sessionId);
    await agent.line();
    await postPrinted(peer, localServers.cancel, sessionId);
    expect(await agent.line()).toEqual(json(forSession(localServers.cancel, "agent-session")));

    const second = await HttpPeer.open(workspace, localServers.initialize);
    const own = await second.stream();
    await postPrinted(second, localServers.load, sessionId);
    expect((await messages(own, 3)).at(-1)?.error).toBeUndefined();
  });

  /** The first events of a stream. */
  async function streamed(response: Response, count: number): Promise<Record<string, string>[]> {
    const reader = (response.body as ReadableStream<Uint8Array>)
      .pipeThrough(new TextDecoderStream())
      .getReader();
    let all = "";
    for (;;) {
      const events = all
        .split("\n\n")
        .slice(0, -1)
        .filter((event) => event.includes("data:"));
      if (events.length >= count) {
        await reader.cancel();
        return events.map((event) =>
          Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s))),
        );
      }
      const { value, done } = await reader.read();
      if (done) throw new Error(`The stream ended after ${all}`);
      all += value;
    }
  }
});
