import { runInDurableObject } from "cloudflare:test";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, expect, vi } from "vitest";
import type { WebhookInfo } from "../../../src/protocol/rest.ts";
import type { AcpSession } from "../../../src/session/acp-session.ts";
import type { WorkspaceState } from "../../../src/workspace/workspace-state.ts";
import type { Json } from "../../fixtures/json.ts";
import { get, type Opened, send, sessionStub, workspaceStub } from "../fixtures.ts";
import { token } from "../tokens.ts";

/** The webhooks of a workspace: the messages of its sessions, and their delivery. */

export type Made = WebhookInfo & { secret: string };
type Message = { type: string; timestamp: string; data: Json };
/** A delivery whose signature was verified. */
type Received = { url: string; id: string; timestamp: number; message: Message };

const ADMIN = ["session:read", "session:prompt", "permission:answer", "workspace:admin"];

/** A webhook receiver that answers as the test says and keeps every request. */
class Receiver {
  requests: Request[] = [];
  received: Received[] = [];
  secrets = new Map<string, string>();
  answer: (request: Request) => Response | Promise<Response> = () => new Response(null, { status: 204 });

  reset(): void {
    Object.assign(this, new Receiver());
  }

  async fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const request = new Request(input, init);
    this.requests.push(request);
    const body = await request.clone().text();
    const headers = Object.fromEntries(request.headers);
    const secret = this.secrets.get(request.url);
    if (secret === undefined) throw new Error("Nobody knows this receiver");
    const message = new Webhook(secret).verify(body, headers) as Message;
    const { "webhook-id": id = "", "webhook-timestamp": timestamp } = headers;
    this.received.push({ url: request.url, id, timestamp: Number(timestamp), message });
    return this.answer(request);
  }

  messages(type?: string): Message[] {
    return this.received
      .map(({ message }) => message)
      .filter((one) => type === undefined || one.type === type);
  }
}

export const receiver = new Receiver();

/** Sends every outgoing request of a test to an empty `receiver`, and undoes afterwards what the test changed. */
export function receiveWebhooks(): void {
  beforeEach(() => {
    receiver.reset();
    vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => receiver.fetch(input, init));
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

export async function adminOf(workspace: string) {
  const bearer = await token({ workspace, scopes: ADMIN });
  const path = `/api/workspaces/${workspace}/webhooks`;
  return {
    bearer,
    path,
    list: async () => ((await (await get(path, bearer)).json()) as { webhooks: WebhookInfo[] }).webhooks,
    audit: async (kind: string) => {
      const page = await get(`/api/audit?limit=1000&kind=${kind}`, bearer);
      return ((await page.json()) as { entries: Json[] }).entries;
    },
  };
}

export async function make(workspace: string, order: object = {}): Promise<Made> {
  const { path, bearer } = await adminOf(workspace);
  const url = `https://receiver.test/${crypto.randomUUID()}?key=sesame`;
  const response = await send("POST", path, bearer, { url, ...order });
  expect(response.status).toBe(201);
  const made = (await response.json()) as Made;
  receiver.secrets.set(url, made.secret);
  return made;
}

/** Makes a deadline of an object due and runs its alarm. */
export async function due<O extends AcpSession | WorkspaceState>(
  stub: DurableObjectStub<O>,
  name: string,
): Promise<void> {
  await runInDurableObject(stub, async (instance, { storage }) => {
    storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = ?", name);
    await instance.alarm();
  });
}

export const dueOf = (workspace: string) => due(workspaceStub(workspace), "webhooks");

export async function turn({ client, agent, sessionId }: Opened): Promise<void> {
  const id = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
  agent.answer(await agent.line(), { stopReason: "end_turn" });
  await client.until(id);
}

/** The agent requests a permission in a turn; returns the id clients see. */
export async function ask({ client, agent, sessionId }: Opened): Promise<string> {
  client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "ask" }] });
  await agent.line();
  const toolCall = { toolCallId: "t1", title: "Write a file", kind: "edit" };
  const options = [{ optionId: "yes", name: "Allow", kind: "allow_once" }];
  const params = { sessionId: "agent-session", toolCall, options };
  agent.items(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/request_permission", params }));
  for (;;) {
    const message = await client.takeJson();
    if (message.method === "session/request_permission") return message.id as string;
  }
}

export const received = (count: number) => vi.waitUntil(() => receiver.received.length >= count, 10_000);

/** The rows and values a session stores for webhooks. */
export async function kept(sessionId: string) {
  return runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    const tables = storage.sql
      .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray()
      .map(({ name }) => name);
    return {
      wanted: storage.kv.get("notices"),
      rows: tables.includes("webhook_message")
        ? storage.sql.exec("SELECT * FROM webhook_message").toArray()
        : undefined,
      tables: tables.filter((name) => !name.startsWith("_cf_") && !name.startsWith("sqlite_")),
      deadlines: tables.includes("deadline")
        ? storage.sql.exec("SELECT * FROM deadline WHERE name = 'webhook-messages'").toArray().length
        : 0,
    };
  });
}
