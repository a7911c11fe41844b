import { afterEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { openSession, sessionStub, texts, workspaceName, workspaceStub } from "../fixtures.ts";
import { HELLO } from "../peers/host.ts";
import { Peer } from "../peers/peer.ts";
import { type Claims, CONTROLLER, mint } from "../tokens.ts";
import { fakeTime, HOUR, pass } from "./fixtures.ts";

afterEach(() => {
  vi.useRealTimers();
});

describe("a host's token", () => {
  test("can be renewed on the control socket, and closes that socket when it expires", async () => {
    fakeTime();
    const workspace = workspaceName();
    const host = { workspaces: [workspace], scopes: ["host"], sub: "host:1" };
    const control = await Peer.connect("/host/control", await mint(host));
    const stub = workspaceStub(workspace);
    control.send(JSON.stringify({ ...HELLO, instance: "i" }));
    expect(await control.takeJson()).toEqual({ t: "welcome" });
    await pass(HOUR - DEFAULT_LIMITS.tokenWarningMs, stub);
    expect(await control.takeJson()).toMatchObject({ t: "expiring" });
    const renewWith = async (claims: Claims) => {
      control.send(JSON.stringify({ t: "renew", token: await mint({ ...host, ...claims }) }));
      return (await control.takeJson()).t;
    };
    for (const claims of [
      { sub: "host:2" },
      { tenant: "other" },
      { workspaces: ["x"] },
      { scopes: CONTROLLER },
      // A token that expires no later would not help the host.
      { exp: DEFAULT_LIMITS.tokenWarningMs / 1000 - 1 },
    ])
      expect([claims, await renewWith(claims)]).toEqual([claims, "not_renewed"]);
    expect(await renewWith({})).toBe("renewed");
    await pass(2 * DEFAULT_LIMITS.tokenWarningMs, stub);
    await pass(HOUR - 3 * DEFAULT_LIMITS.tokenWarningMs, stub);
    expect(await control.takeJson()).toMatchObject({ t: "expiring" });
    await pass(DEFAULT_LIMITS.tokenWarningMs, stub);
    expect(await control.closed).toMatchObject({ code: 4401, reason: "token expired" });
  });

  test("closes a session's socket on time, even if the token before lasted longer", async () => {
    fakeTime();
    const { workspace, sessionId } = await openSession();
    const bearer = await mint({ workspaces: [workspace], scopes: ["host"] });
    const link = await Peer.connect(`/host/sessions/${sessionId}`, bearer);
    await pass(HOUR, sessionStub(sessionId));
    expect(await link.closed).toMatchObject({ code: 4401, reason: "token expired" });
  });

  test("closes a session's socket, which costs a reconnect and nothing of the turn", async () => {
    fakeTime();
    const { workspace, client, agent, sessionId } = await openSession();
    const turn = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
    const request = await agent.line();
    agent.update("before");
    await agent.durable();
    const { link } = agent;
    const week = 7 * 24 * HOUR;
    vi.setSystemTime(Date.now() + week - HOUR);
    const token = await mint({ workspaces: [workspace], exp: 7200 });
    const renewed = await client.request("_acp-edge/renew", { token });
    expect(renewed.response).toHaveProperty("result");
    await pass(HOUR, sessionStub(sessionId));
    expect(await link.closed).toMatchObject({ code: 4401, reason: "token expired" });
    await agent.reconnect();
    agent.update("after");
    agent.answer(request, { stopReason: "end_turn" });
    const { before, response } = await client.until(turn);
    expect(texts([...renewed.before, ...before])).toEqual(["before", "after"]);
    expect(response.result).toEqual({ stopReason: "end_turn" });
  });
});
