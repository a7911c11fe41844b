import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { sessionObject } from "../../src/durable/objects.ts";
import type { Json } from "../fixtures/json.ts";
import type { Agent } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

/** A name no other test uses, so that tests share no workspace. */
export const workspaceName = () => `w-${crypto.randomUUID()}`;

/** The params of `session/prompt`. */
export const prompt = (sessionId: string, text = "go") => ({ sessionId, prompt: [{ type: "text", text }] });

export function sessionStub(sessionId: string, tenant = "acme") {
  return sessionObject(env, tenant, sessionId);
}

export function workspaceStub(workspace: string, tenant = "acme") {
  return env.WORKSPACE_STATE_DO.getByName(`${tenant}/${workspace}`);
}

/** The connection of the only client of a session. */
export function connectionOf(sessionId: string): Promise<string> {
  return runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    const rows = storage.sql.exec<{ connection: string }>("SELECT connection FROM client");
    return rows.one().connection;
  });
}

export function subjectStub(subject: string, tenant = "acme") {
  return env.SUBJECT_DO.getByName(`${tenant}/${subject}`);
}

/** The sockets of a subject that its object knows. */
export async function socketsOf(subject: string, tenant = "acme"): Promise<string[]> {
  return runInDurableObject(subjectStub(subject, tenant), (_, { storage: { sql } }) => {
    if (sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'socket'").toArray().length === 0) return [];
    return sql
      .exec<{ id: string }>("SELECT id FROM socket")
      .toArray()
      .map(({ id }) => id);
  });
}

export function connectionStub(connection: string) {
  return env.ACP_CONNECTION_DO.getByName(connection);
}

/** Keeps an object from answering anybody until the returned function is called. */
export async function holdUp(object: DurableObjectStub): Promise<() => Promise<void>> {
  let [held, over] = [false, false];
  const holding = runInDurableObject(object, (_, state) =>
    state.blockConcurrencyWhile(async () => {
      held = true;
      while (!over) await scheduler.wait(5);
    }),
  );
  while (!held) await scheduler.wait(5);
  return () => {
    over = true;
    return holding;
  };
}

export async function get(path: string, bearer?: string, method = "GET"): Promise<Response> {
  return exports.default.fetch(`https://edge.test${path}`, {
    method,
    headers: bearer ? { Authorization: `Bearer ${bearer}` } : {},
  });
}

export async function send(method: string, path: string, bearer: string, body: unknown): Promise<Response> {
  return exports.default.fetch(`https://edge.test${path}`, {
    method,
    headers: { Authorization: `Bearer ${bearer}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** A workspace with a host, a client and an open session. */
export async function openSession(capabilities: object = {}): Promise<Opened> {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  host.capabilities = capabilities;
  const client = await Client.open(workspace);
  const opening = client.newSession();
  const agent = await host.agent();
  await agent.openSession();
  return { workspace, host, client, agent, sessionId: await opening };
}

export type Opened = { workspace: string; host: Host; client: Client; agent: Agent; sessionId: string };

export async function eventsText(workspace: string, sessionId: string, query = ""): Promise<string> {
  const response = await get(`/api/sessions/${sessionId}/events${query}`, await token({ workspace }));
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return new TextDecoder().decode(await response.arrayBuffer());
}

export async function events(workspace: string, sessionId: string, query = ""): Promise<Json[]> {
  const lines = (await eventsText(workspace, sessionId, query)).split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Json);
}

export function texts(messages: Json[]): string[] {
  return messages.flatMap((m) => {
    const update = (
      m.params as { update?: { sessionUpdate?: string; content?: { text?: string } } } | undefined
    )?.update;
    return update?.sessionUpdate === "agent_message_chunk" ? [update.content?.text ?? ""] : [];
  });
}
