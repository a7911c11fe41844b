import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { app } from "../../../src/http/app.ts";
import { RESUMABLE } from "../../../src/protocol/resumable-wire.ts";
import { type Opened, openSession } from "../fixtures.ts";
import { permissionRequest, questionRequest } from "../peers/agent.ts";
import { ALL_OF_A_CLIENT, mint, token } from "../tokens.ts";

export const JSON_TYPE = { "Content-Type": "application/json" };

/**
 * A session in which a turn runs, a prompt waits and a permission and a question are open, in a workspace with a webhook;
 * `answer` is a link that answers the permission, `form` a link to the question.
 */
export type Place = Opened & {
  turnId: string;
  permission: string;
  question: string;
  form: string;
  answer: string;
  connection: string;
  resumable: string;
  webhook: string;
};
export type Ask = { path: string; method?: string; headers?: Record<string, string>; body?: string };

// ---- the table ------------------------------------------------------------------------------------------

export const UPGRADE = { Upgrade: "websocket" };
export const RESUME = { ...UPGRADE, "Sec-WebSocket-Protocol": RESUMABLE };
export const INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}';

// ---- the tests ------------------------------------------------------------------------------------------

export async function makePlace(): Promise<Place> {
  const opened = await openSession();
  const { client, agent, sessionId, workspace } = opened;
  const prompt = (text: string) =>
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  prompt("ask");
  await agent.line();
  agent.items(permissionRequest(77));
  const permission = (await client.takeJson()).id as string;
  agent.items(questionRequest(78));
  const question = (await client.takeJson()).id as string;
  prompt("wait");
  // Requests are answered in order, so the prompt is in the queue once this one is answered.
  await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
  const bearer = await token({ workspace });
  const view = (await (await fetchAs({ path: `/api/sessions/${sessionId}` }, bearer)).json()) as {
    queue: { turnId: string }[];
  };
  const sharer = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT });
  const path = `/api/permissions/${permission}/links`;
  const { links } = (await (await fetchAs({ path, method: "POST" }, sharer)).json()) as {
    links: { url: string }[];
  };
  const answer = links[0]?.url.replace("https://edge.test", "") as string;
  const asked = await fetchAs({ path: `/api/questions/${question}/links`, method: "POST" }, sharer);
  const form = ((await asked.json()) as { url: string }).url.replace("https://edge.test", "");
  const initialized = await fetchAs(
    { path: "/acp", method: "POST", headers: JSON_TYPE, body: INITIALIZE },
    bearer,
  );
  const connection = initialized.headers.get("Acp-Connection-Id") as string;
  const dialled = await fetchAs({ path: "/acp", headers: RESUME }, bearer);
  dialled.webSocket?.accept();
  const resumable = dialled.headers.get("Acp-Connection-Id") as string;
  const hook = await fetchAs(
    {
      path: `/api/workspaces/${workspace}/webhooks`,
      method: "POST",
      headers: JSON_TYPE,
      // No receiver listens at this address, so deliveries fail.
      body: '{"url":"https://receiver.test/","events":["agent.failed"]}',
    },
    sharer,
  );
  const { id: webhook } = (await hook.json()) as { id: string };
  const turnId = view.queue[0]?.turnId as string;
  return { ...opened, permission, question, answer, form, turnId, connection, resumable, webhook };
}

let shared: Promise<Place> | undefined;

export function sharedPlace(): Promise<Place> {
  shared ??= makePlace();
  return shared;
}

/** Calls the app directly, because each call through the test's entry point takes longer than the one before. */
export async function fetchAs({ path, ...init }: Ask, bearer: string | undefined): Promise<Response> {
  const authorization = bearer === undefined ? {} : { Authorization: `Bearer ${bearer}` };
  const request = new Request(`https://edge.test${path}`, {
    ...init,
    headers: { ...init.headers, ...authorization },
  });
  return app.fetch(request, env, createExecutionContext());
}
