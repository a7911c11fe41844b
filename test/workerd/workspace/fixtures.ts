import { env } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { events, get, send, token } from "../harness.ts";

export type Json = Record<string, unknown>;

export const name = () => `w-${crypto.randomUUID()}`;
export const prompt = (sessionId: string, text = "go") => ({ sessionId, prompt: [{ type: "text", text }] });
export const admin = (workspace: string) => token({ workspace, scopes: ["session:read", "workspace:admin"] });
export const CAN_RESUME = { sessionCapabilities: { resume: {} } };

export async function set(workspace: string, change: Json): Promise<Json> {
  const response = await send("PUT", `/api/workspaces/${workspace}`, await admin(workspace), change);
  expect(response.status, await response.clone().text()).toBe(200);
  return response.json();
}

export async function view(workspace: string): Promise<Json> {
  return (await get(`/api/workspaces/${workspace}`, await token({ workspace }))).json();
}

export async function session(workspace: string, sessionId: string): Promise<Json> {
  return (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json();
}

export async function kinds(workspace: string, sessionId: string): Promise<string[]> {
  return (await events(workspace, sessionId)).map((event) => event.kind as string);
}

/** Waits until the log has an event of a kind. */
export async function logged(workspace: string, sessionId: string, kind: string): Promise<void> {
  await vi.waitUntil(async () => (await kinds(workspace, sessionId)).includes(kind), { timeout: 10_000 });
}

export const stub = (workspace: string) => env.WORKSPACE_STATE_DO.getByName(`acme/${workspace}`);
