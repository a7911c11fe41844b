import { expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { get, openSession, prompt, send, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { linkTo } from "./readers/fixtures.ts";
import { token } from "./tokens.ts";

/** The session as the container data model names it. */

async function conversation() {
  const opened = await openSession();
  const { client, agent, sessionId } = opened;
  for (const text of ["first", "second"]) {
    const id = client.call("session/prompt", prompt(sessionId, text));
    const line = await agent.line();
    agent.update(`answer to ${text}`);
    agent.items(
      JSON.stringify({
        jsonrpc: "2.0",
        method: "session/update",
        params: {
          sessionId: "agent-session",
          update: {
            sessionUpdate: "tool_call",
            toolCallId: text,
            title: "Read",
            rawInput: { path: "SECRET" },
          },
        },
      }),
    );
    agent.answer(line, { stopReason: "end_turn" });
    await client.until(id);
  }
  const view = async (query = "", bearer?: string) => {
    const path = `/api/sessions/${sessionId}${query}`;
    return (await (await get(path, bearer ?? (await token(opened)))).json()) as Json;
  };
  return { ...opened, view };
}

const contents = (messages: unknown) =>
  (messages as { content: string }[][]).map(([block]) => block?.content);

test("a view has the entity under the names of the container data model, with numbers as times", async () => {
  const { sessionId, view } = await conversation();
  const entity = await view();
  expect(entity).toMatchObject({
    sessionId,
    workspaceUri: "file:///workspace",
    mode: "development",
    state: "active",
    createdAt: expect.any(Number),
    lastActiveAt: expect.any(Number),
    messageHistoryNext: null,
  });
  expect(contents(entity.messageHistory)).toEqual(["first", "answer to first", "second", "answer to second"]);
});

test("the history continues after any event, and ends with the log", async () => {
  const { view } = await conversation();
  const { turns } = (await view()) as { turns: { recent: { prompt: number }[] } };
  const second = await view(`?history=${(turns.recent[1]?.prompt ?? 0) - 1}`);
  expect(contents(second.messageHistory)).toEqual(["second", "answer to second"]);
  const { log } = second as { log: { lastSeq: number } };
  expect((await view(`?history=${log.lastSeq}`)).messageHistory).toEqual([]);
});

test("a reader of a redacted link gets the conversation without tool data and places", async () => {
  const { view, workspace, sessionId } = await conversation();
  const link = await linkTo(workspace, sessionId, true);
  const entity = await view("", link);
  expect(contents(entity.messageHistory)).toContain("answer to second");
  expect(entity).toMatchObject({ sessionId, mode: "development", workspaceUri: null });
  expect(JSON.stringify(entity)).not.toContain("SECRET");
});

test("a client of the data model is given the name that the workspace has set, and its mode is kept", async () => {
  const workspace = workspaceName();
  const bearer = await token({ workspace, scopes: ["session:read", "workspace:admin"] });
  await send("PUT", `/api/workspaces/${workspace}`, bearer, { clientAgentName: "Claude Code Container" });
  const host = await Host.join(workspace);
  const client = await Client.raw(workspace);
  const { response } = await client.request("initialize", {
    protocolVersion: "0.3.1",
    clientCapabilities: { editWorkspace: true },
  });
  expect(response.result).toMatchObject({ agentInfo: { name: "Claude Code Container", version: "1" } });
  const id = client.call("session/new", { workspaceUri: "file:///repo", mode: "conversation" });
  await (await host.agent()).openSession();
  const { sessionId } = (await client.until(id)).response.result as { sessionId: string };
  const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
  expect(await view.json()).toMatchObject({ mode: "conversation" });
});
