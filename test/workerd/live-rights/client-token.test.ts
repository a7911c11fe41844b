import { runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { connectionStub, eventsText, openSession, socketsOf, texts, workspaceName } from "../fixtures.ts";
import type { Client } from "../peers/client.ts";
import { EventReader, INITIALIZE, JSON_TYPE } from "../peers/http-client.ts";
import { type Claims, CONTROLLER, mint } from "../tokens.ts";
import { ask, connect, fakeTime, HOUR, pass, revoke } from "./fixtures.ts";

afterEach(() => {
  vi.useRealTimers();
});

async function attach(client: Client, sessionId: string): Promise<void> {
  await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
}

describe("a client's token", () => {
  test("closes its socket when it expires, after a warning", async () => {
    fakeTime();
    const { workspace, sessionId } = await openSession();
    const { client, connection } = await connect(await mint({ workspaces: [workspace] }));
    await attach(client, sessionId);
    await pass(HOUR - DEFAULT_LIMITS.tokenWarningMs, connectionStub(connection));
    const warning = await client.takeJson();
    expect(warning).toMatchObject({ method: "_acp-edge/token_expiring" });
    const { expiresAt } = warning.params as { expiresAt: string };
    expect(Math.abs(Date.parse(expiresAt) - Date.now() - DEFAULT_LIMITS.tokenWarningMs)).toBeLessThan(5_000);
    await pass(DEFAULT_LIMITS.tokenWarningMs, connectionStub(connection));
    expect(await client.closed).toMatchObject({ code: 4401, reason: "token expired" });
    client.socket.close();
    // Neither the connection's object nor the session remembers the client.
    await vi.waitFor(async () => {
      const left = await runInDurableObject(connectionStub(connection), (_, { storage }) =>
        storage.getAlarm(),
      );
      expect(left).toBeNull();
      const bearer = await mint({ workspaces: [workspace] });
      const view = (await (await ask("GET", `/api/sessions/${sessionId}`, bearer)).json()) as {
        clients: { connection: string }[];
      };
      expect(view.clients.some((one) => one.connection === connection)).toBe(false);
    });
  });

  test("is worthless after it expires, even when the alarm is late", async () => {
    fakeTime();
    const { client } = await connect(await mint({ workspaces: ["w"] }));
    vi.setSystemTime(Date.now() + HOUR);
    client.call("session/list", {});
    expect((await client.closed).code).toBe(4401);
  });

  test("can be renewed in place in the middle of a turn", async () => {
    fakeTime();
    const { workspace, agent, sessionId } = await openSession();
    const { client, connection } = await connect(await mint({ workspaces: [workspace] }));
    await attach(client, sessionId);
    const turn = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
    const request = await agent.line();
    const said = Array.from({ length: 60 }, (_, n) => `piece ${n}`);
    for (const text of said.slice(0, 20)) agent.update(text);
    vi.setSystemTime(Date.now() + HOUR - 1000);
    const newer = await mint({ workspaces: [workspace], exp: 7200 });
    const renewing = client.call("_acp-edge/renew", { token: newer });
    for (const text of said.slice(20, 40)) agent.update(text);
    const { response, before } = await client.until(renewing);
    expect(Date.parse((response.result as { expiresAt: string }).expiresAt)).toBeGreaterThan(
      Date.now() + HOUR,
    );
    // The old token has expired; the turn goes on.
    await pass(2000, connectionStub(connection));
    for (const text of said.slice(40)) agent.update(text);
    agent.answer(request, { stopReason: "end_turn" });
    const rest = await client.until(turn);
    expect(rest.response.result).toEqual({ stopReason: "end_turn" });
    expect(texts([...before, ...rest.before])).toEqual(said);
    await pass(2 * HOUR, connectionStub(connection));
    expect((await client.closed).code).toBe(4401);
    expect(await eventsText(workspace, sessionId)).not.toContain(newer.split(".")[2]);
  });

  test("cannot be replaced by another client's token", async () => {
    const { workspace, sessionId } = await openSession();
    const { client } = await connect(await mint({ workspaces: [workspace] }));
    await attach(client, sessionId);
    const jti = crypto.randomUUID();
    await revoke({ jti });
    for (const claims of [
      { sub: "another" },
      { tenant: "other" },
      { scopes: ["host"] },
      { scopes: ["share"] },
      { workspaces: ["elsewhere"] },
      { exp: -60 },
      { jti },
    ] satisfies Claims[]) {
      const token = await mint({ workspaces: [workspace], ...claims });
      const { response } = await client.request("_acp-edge/renew", { token });
      expect([claims, response.error]).toMatchObject([claims, { code: -32003 }]);
    }
    const { response } = await client.request("_acp-edge/renew", {});
    expect(response.error).toMatchObject({ code: -32602 });
    expect((await client.request("session/list", {})).response).toHaveProperty("result");
  });

  test("gives its rights from the moment it is presented", async () => {
    const { workspace, agent, sessionId } = await openSession();
    const renewWith = async (client: Client, scopes: string[]) => {
      const token = await mint({ workspaces: [workspace], scopes });
      return (await client.request("_acp-edge/renew", { token })).response;
    };
    const roleOf = async (connection: string) => {
      const bearer = await mint({ workspaces: [workspace] });
      const view = await (await ask("GET", `/api/sessions/${sessionId}`, bearer)).json();
      const { clients } = view as { clients: { connection: string; role: string }[] };
      return clients.find((one) => one.connection === connection)?.role;
    };
    const prompt = { sessionId, prompt: [{ type: "text", text: "hi" }] };
    const { client, connection } = await connect(await mint({ workspaces: [workspace] }));
    await attach(client, sessionId);
    expect(await roleOf(connection)).toBe("controller");
    await renewWith(client, ["session:read"]);
    expect(await roleOf(connection)).toBe("observer");
    expect((await client.request("session/prompt", prompt)).response.error).toMatchObject({ code: -32003 });
    await renewWith(client, CONTROLLER);
    expect(await roleOf(connection)).toBe("controller");
    const turn = client.call("session/prompt", prompt);
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(turn)).response.result).toEqual({ stopReason: "end_turn" });

    const watching = await connect(await mint({ workspaces: [workspace] }), "?role=observer");
    await attach(watching.client, sessionId);
    await renewWith(watching.client, CONTROLLER);
    expect(await roleOf(watching.connection)).toBe("observer");
  });

  test("appears in no log, whatever a client puts around it", async () => {
    const { workspace, client, agent, sessionId } = await openSession();
    const token = await mint({ workspaces: [workspace] });
    client.notify("_acp-edge/renew", { token, sessionId });
    await client.request("_acp-edge/renew", { token, sessionId });
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "hi" }] });
    expect((await agent.line()).method).toBe("session/prompt");
    expect(await eventsText(workspace, sessionId)).not.toContain(token.split(".")[2]);
  });
});

describe("a client's token over HTTP", () => {
  async function open(bearer: string) {
    const response = await exports.default.fetch("https://edge.test/acp", {
      method: "POST",
      headers: { Authorization: `Bearer ${bearer}`, ...JSON_TYPE },
      body: INITIALIZE,
    });
    const connection = response.headers.get("Acp-Connection-Id") as string;
    const headers = { "Acp-Connection-Id": connection };
    const stream = async (token: string) => {
      const answer = await exports.default.fetch("https://edge.test/acp", {
        headers: { Authorization: `Bearer ${token}`, Accept: "text/event-stream", ...headers },
      });
      if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
      return new EventReader(answer);
    };
    const post = async (token: string) => {
      const answer = await exports.default.fetch("https://edge.test/acp", {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, ...JSON_TYPE, ...headers },
        body: '{"jsonrpc":"2.0","id":9,"method":"session/list","params":{}}',
      });
      return answer.status;
    };
    return { connection, stream, post };
  }

  test("ends its stream when it expires, and the next token continues the stream", async () => {
    fakeTime();
    const workspace = workspaceName();
    const first = await mint({ workspaces: [workspace] });
    const { connection, stream, post } = await open(first);
    const reader = await stream(first);
    await pass(HOUR - DEFAULT_LIMITS.tokenWarningMs, connectionStub(connection));
    expect((await reader.next())?.message).toMatchObject({ method: "_acp-edge/token_expiring" });
    await pass(DEFAULT_LIMITS.tokenWarningMs, connectionStub(connection));
    expect(await reader.next()).toBeUndefined();
    const second = await mint({ workspaces: [workspace] });
    const again = await stream(second);
    expect(await post(second)).toBe(202);
    expect(await again.take()).toMatchObject({ id: 9 });
    await again.cancel();
  });

  test("keeps the stream alive when a later request brings a newer token", async () => {
    fakeTime();
    const workspace = workspaceName();
    const first = await mint({ workspaces: [workspace] });
    const { connection, stream, post } = await open(first);
    const reader = await stream(first);
    vi.setSystemTime(Date.now() + HOUR - 100_000);
    const second = await mint({ workspaces: [workspace] });
    expect(await post(second)).toBe(202);
    expect(await reader.take()).toMatchObject({ id: 9 });
    await pass(200_000, connectionStub(connection));
    expect(await post(second)).toBe(202);
    expect(await reader.take()).toMatchObject({ id: 9 });
    await reader.cancel();
  });

  test("ends the connection when it is revoked", async () => {
    const sub = crypto.randomUUID();
    const bearer = await mint({ workspaces: [workspaceName()], sub });
    const { stream, connection } = await open(bearer);
    const reader = await stream(bearer);
    expect(await socketsOf(sub)).toEqual([connection]);
    await revoke({ subject: sub });
    expect(await reader.next()).toBeUndefined();
    expect((await ask("GET", "/api/sessions", await mint({ sub }))).status).toBe(401);
  });
});
