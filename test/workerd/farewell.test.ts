import { describe, expect, test } from "vitest";
import { get, openSession, prompt } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { token } from "./tokens.ts";

const CAPABLE = { sessionCapabilities: { close: {}, delete: {} } };

describe("session/close", () => {
  test("reaches an agent that has it, and the process ends after the answer", async () => {
    setLimits({ farewellMs: 60_000 });
    const { client, agent, sessionId } = await openSession(CAPABLE);
    client.call("session/prompt", prompt(sessionId));
    await agent.line();
    expect((await client.request("session/close", { sessionId })).response.result).toEqual({});
    const request = await agent.line();
    expect(request).toMatchObject({ method: "session/close", params: { sessionId: "agent-session" } });
    agent.answer(request, {});
    expect(await agent.stopped()).toBe("closed");
  });

  test("waits for no answer of an agent for long", async () => {
    setLimits({ farewellMs: 50 });
    const { client, agent, sessionId } = await openSession(CAPABLE);
    await client.request("session/close", { sessionId });
    expect(await agent.line()).toMatchObject({ method: "session/close" });
    expect(await agent.stopped()).toBe("closed");
  });

  test("is not sent to an agent without it", async () => {
    setLimits({ farewellMs: 60_000 });
    const { client, agent, sessionId } = await openSession();
    await client.request("session/close", { sessionId });
    expect(await agent.stopped()).toBe("closed");
  });
});

describe("session/delete", () => {
  test("reaches an agent that has it before everything is gone", async () => {
    setLimits({ farewellMs: 60_000 });
    const { workspace, client, agent, sessionId } = await openSession(CAPABLE);
    const deleting = client.call("session/delete", { sessionId });
    const request = await agent.line();
    expect(request).toMatchObject({ method: "session/delete", params: { sessionId: "agent-session" } });
    agent.answer(request, {});
    expect((await client.until(deleting)).response.result).toEqual({});
    expect(await agent.stopped()).toBe("deleted");
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace }))).status).toBe(404);
  });

  test("waits for no answer of an agent for long, and starts no process", async () => {
    setLimits({ farewellMs: 50 });
    const { workspace, client, agent, host, sessionId } = await openSession(CAPABLE);
    expect((await client.request("session/delete", { sessionId })).response.result).toEqual({});
    expect(await agent.stopped()).toBe("deleted");
    const opening = client.newSession();
    const next = await host.agent();
    await next.openSession();
    const idle = await opening;
    next.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await next.durable();
    expect((await client.request("session/delete", { sessionId: idle })).response.result).toEqual({});
    expect((await get(`/api/sessions/${idle}`, await token({ workspace }))).status).toBe(404);
  });
});
