import { expect, vi } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { events, get, send } from "../fixtures.ts";
import { token } from "../tokens.ts";

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

/** Waits until the log has an event of this kind. */
export async function logged(workspace: string, sessionId: string, kind: string): Promise<void> {
  await vi.waitUntil(async () => (await kinds(workspace, sessionId)).includes(kind), { timeout: 10_000 });
}
