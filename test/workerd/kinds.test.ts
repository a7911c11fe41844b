import { describe, expect, test } from "vitest";
import { events, openSession } from "./fixtures.ts";

/** The event kinds that no other test covers. */
describe("the log", () => {
  test("has an event with the harness's own session id when the agent reports it", async () => {
    const { client, agent, host, sessionId, workspace } = await openSession();
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    client.call("session/prompt", { sessionId, prompt: [] });
    const next = await host.agent();
    const opening = await next.line();
    next.answer(opening, { sessionId: "another", _meta: { agentSessionId: "inner-1" } });
    await next.line();
    next.update("hi", "another");
    await next.durable();
    const log = await events(workspace, sessionId);
    const updated = log.find((e) => e.kind === "session.agent_session_id.updated");
    expect(updated).toMatchObject({
      agentSessionId: "inner-1",
      payload: { agentSessionId: "inner-1", previous: null },
    });
    expect(log.at(-1)).toMatchObject({ acpSessionId: "another", agentSessionId: "inner-1" });
  });

  test.each([
    ["fs/read_text_file", "client.fs.read"],
    ["fs/write_text_file", "client.fs.write"],
    ["terminal/create", "client.terminal.create"],
    ["terminal/output", "client.terminal.output"],
    ["terminal/wait_for_exit", "client.terminal.wait_for_exit"],
    ["terminal/kill", "client.terminal.kill"],
    ["terminal/release", "client.terminal.release"],
  ])("has %s as %s, derived from the request and its answer", async (method, kind) => {
    const { agent, sessionId, workspace } = await openSession();
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: "x", method, params: { sessionId: "agent-session" } }));
    agent.items(JSON.stringify(["answer", '{"jsonrpc":"2.0","id":"x","result":{}}']));
    await agent.line();
    const log = await events(workspace, sessionId);
    const { payload } = log.find((e) => e.kind === kind) as {
      payload: { request: number; answer: number; ok: boolean };
    };
    expect(payload.ok).toBe(true);
    expect(log[payload.request - 1]).toMatchObject({
      source: "agent",
      payload: { direction: "in", message: { method } },
    });
    expect(log[payload.answer - 1]).toMatchObject({
      source: "host",
      payload: { direction: "out", message: { id: "x" } },
    });
  });

  test("has an agent's output that is no message as noise, with its text", async () => {
    const { agent, sessionId, workspace } = await openSession();
    agent.items(JSON.stringify(["noise", "Loading model…"]), '{"broken":', '["unknown",1]');
    await agent.durable();
    const noise = (await events(workspace, sessionId)).filter((e) => e.kind === "runtime.noise");
    expect(noise.map((e) => (e.payload as { text: string }).text)).toEqual([
      "Loading model…",
      '{"broken":',
      '["unknown",1]',
    ]);
  });

  test("names the turn and the request in each step of a prompt", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "1" }] });
    const second = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "2" }] });
    client.notify("_mark", { sessionId });
    const one = await agent.line();
    expect((await agent.line()).method).toBe("_mark");
    agent.answer(one, { stopReason: "end_turn" });
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(second);
    const log = await events(workspace, sessionId);
    const prompts = log.filter(
      (e) => (e.payload as { message?: { method?: string } }).message?.method === "session/prompt",
    );
    const steps = (requestId: unknown) =>
      log.filter((e) => e.requestId === requestId).map((e) => (e.kind === "acp.frame" ? e.source : e.kind));
    expect(steps(prompts[0]?.requestId)).toEqual(["client", "turn.started", "agent", "turn.completed"]);
    expect(steps(prompts[1]?.requestId)).toEqual([
      "client",
      "queue.enqueued",
      "queue.dequeued",
      "turn.started",
      "agent",
      "turn.completed",
    ]);
    for (const { requestId, turnId } of prompts) {
      expect(new Set(log.filter((e) => e.requestId === requestId).map((e) => e.turnId))).toEqual(
        new Set([turnId]),
      );
    }
  });
});
