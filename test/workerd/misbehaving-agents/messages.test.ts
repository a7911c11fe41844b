/** Agents that break the rules of JSON-RPC and of the stream. */
import { describe, expect } from "vitest";
import { permissionRequest, updateText } from "../peers/agent.ts";
import { misbehaves, opened } from "./fixtures.ts";

describe("an agent that writes what is no message", () => {
  misbehaves("banner_on_stdout", "clients see nothing of it, and the log has it as a violation", async () => {
    const session = await opened();
    session.all.agent.items("Welcome to the agent 1.0!");
    expect(await session.received()).toEqual([]);
    expect(await session.violations()).toEqual(["noMessage"]);
    await session.worksOn();
  });

  misbehaves("garbage_after_response", "the turn has ended, and clients see nothing of it", async () => {
    const session = await opened();
    const { client, agent } = session.all;
    const { id, request } = await session.prompted();
    agent.answer(request, { stopReason: "end_turn" });
    agent.items("{ trailing garbage", '{"foo":"bar"}');
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
    expect(await session.received()).toEqual([]);
    expect(await session.violations()).toEqual(["noMessage", "noMessage"]);
    await session.worksOn();
  });

  misbehaves(
    "dies_on_bad_json",
    "it never gets any, because the gateway answers clients itself",
    async () => {
      const session = await opened();
      const { client } = session.all;
      client.send("{not json");
      expect(await client.takeJson()).toMatchObject({ id: null, error: { code: -32700 } });
      client.send('{"foo":"bar"}');
      expect(await client.takeJson()).toMatchObject({ id: null, error: { code: -32600 } });
      // The next line of the agent is this prompt.
      await session.worksOn();
    },
  );
});

describe("an agent whose answers are wrong", () => {
  misbehaves("wrong_id_echo", "an answer that nobody waits for reaches nobody", async () => {
    const session = await opened();
    const { client, agent } = session.all;
    const { id, request } = await session.prompted();
    agent.answer({ id: 999_999 }, { stopReason: "end_turn" });
    expect(await session.received()).toEqual([]);
    expect(await session.view()).toMatchObject({ turn: { turnId: expect.any(String) } });
    agent.answer(request, { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  misbehaves("result_and_error", "the client gets the error, and the log notes a violation", async () => {
    const session = await opened();
    const { client, agent } = session.all;
    const { id, request } = await session.prompted();
    const error = { code: -32603, message: "both" };
    agent.items(
      JSON.stringify({ jsonrpc: "2.0", id: request.id, result: { stopReason: "end_turn" }, error }),
    );
    const { response } = await client.until(id);
    expect(response).toEqual({ jsonrpc: "2.0", id, error });
    expect(await session.violations()).toEqual(["resultAndError"]);
    await session.worksOn();
  });

  misbehaves("answers_notifications", "clients see nothing of answers without an id", async () => {
    const session = await opened();
    const { client, agent, sessionId } = session.all;
    const { id, request } = await session.prompted();
    client.notify("session/cancel", { sessionId });
    await agent.line();
    agent.items('{"jsonrpc":"2.0","id":null,"result":null}');
    agent.answer(request, { stopReason: "cancelled" });
    const { response, before } = await client.until(id);
    expect(before).toEqual([]);
    expect(response.result).toEqual({ stopReason: "cancelled" });
    await session.worksOn();
  });

  misbehaves(
    "noisy_stderr_and_parse_error_reply",
    "its complaints about our messages reach no client",
    async () => {
      const session = await opened();
      session.all.agent.items('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}');
      expect(await session.received()).toEqual([]);
      await session.worksOn();
    },
  );

  misbehaves(
    "unknown_method_no_error",
    "its success is passed on, as the agent answers for its methods",
    async () => {
      const { all } = await opened();
      const id = all.client.call("_vendor/unknown", { sessionId: all.sessionId });
      all.agent.answer(await all.agent.line(), {});
      expect((await all.client.until(id)).response.result).toEqual({});
    },
  );
});

describe("an agent that speaks out of turn", () => {
  misbehaves("update_wrong_session", "no client takes the update for one of its session", async () => {
    const session = await opened();
    session.all.agent.items(updateText("elsewhere", "another-session"));
    const messages = await session.received();
    expect(
      messages.filter(({ params }) => (params as { sessionId: string }).sessionId === session.all.sessionId),
    ).toEqual([]);
    expect(JSON.stringify(await session.log())).toContain("elsewhere");
    await session.worksOn();
  });

  misbehaves("update_after_response", "the late update is passed on and belongs to no turn", async () => {
    const session = await opened();
    const { client, agent, sessionId } = session.all;
    const { id, request } = await session.prompted();
    agent.answer(request, { stopReason: "end_turn" });
    agent.update("late");
    expect((await client.until(id)).before).toEqual([]);
    expect(await session.received()).toMatchObject([{ method: "session/update", params: { sessionId } }]);
    const logged = (await session.log()).find(({ payload }) => JSON.stringify(payload).includes('"late"'));
    expect(logged?.turnId).toBeNull();
  });

  misbehaves("pushes_status_notifications", "notifications of its own are passed on", async () => {
    const session = await opened();
    session.notify("_vendor/status", { sessionId: "agent-session", state: "busy" });
    expect(await session.received()).toMatchObject([
      { method: "_vendor/status", params: { sessionId: session.all.sessionId, state: "busy" } },
    ]);
    await session.worksOn();
  });

  misbehaves("asks_permission", "a question after the cancel is answered for the user", async () => {
    const session = await opened();
    const { client, agent, sessionId } = session.all;
    const { id, request } = await session.prompted();
    agent.items(permissionRequest(3));
    expect(await client.takeJson()).toMatchObject({ method: "session/request_permission" });
    client.notify("session/cancel", { sessionId });
    const lines = [await agent.line(), await agent.line()];
    expect(lines).toContainEqual(expect.objectContaining({ method: "session/cancel" }));
    expect(lines).toContainEqual(
      expect.objectContaining({ id: 3, result: { outcome: { outcome: "cancelled" } } }),
    );
    agent.answer(request, { stopReason: "cancelled" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "cancelled" });
  });
});
