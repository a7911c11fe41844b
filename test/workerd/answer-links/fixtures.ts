import { createExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect } from "vitest";
import { app } from "../../../src/http/app.ts";
import type { Json } from "../../fixtures/json.ts";
import { get, type Opened, openSession, send } from "../fixtures.ts";
import { ALL_OF_A_CLIENT, type Claims, mint } from "../tokens.ts";

/**
 * Answer links in notifications: each gives one answer to one permission request, once, for anyone who has the link.
 */

type Linked = { optionId: string; name: string | null; kind: string | null; url: string };
export type Made = { id: string; permission: string; expiresAt: string; links: Linked[] };

export const OPTIONS = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "always", name: "Sure", kind: "allow_always" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];
export const JSON_PLEASE = { Accept: "application/json" };
export const selected = (optionId: string) => ({ outcome: { outcome: "selected", optionId } });

/** A session whose agent waits for an answer. */
export type Asking = Opened & { permission: string; owner: string };

export async function asking(toolCall: Json = {}, options: Json[] = OPTIONS): Promise<Asking> {
  const opened = await openSession();
  const params = {
    sessionId: "agent-session",
    toolCall: { toolCallId: "t1", title: "Write a file", kind: "edit", ...toolCall },
    options,
  };
  opened.agent.items(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/request_permission", params }));
  const { id } = await opened.client.takeJson();
  const owner = await mint({ workspaces: [opened.workspace], scopes: ALL_OF_A_CLIENT, sub: "owner" });
  return { ...opened, permission: id as string, owner };
}

export async function linked(place: Asking, order: Json = {}, claims: Claims = {}): Promise<Made> {
  const maker = { workspaces: [place.workspace], scopes: ALL_OF_A_CLIENT, sub: "owner", ...claims };
  const path = `/api/permissions/${place.permission}/links`;
  const response = await send("POST", path, await mint(maker), order);
  expect(response.status).toBe(201);
  return (await response.json()) as Made;
}

/** The URL that chooses the option with this id. */
export function urlOf({ links }: Made, optionId: string): string {
  return links.find((link) => link.optionId === optionId)?.url as string;
}

export const tokenIn = (url: string) => new URL(url).searchParams.get("link") as string;

export async function follow(
  url: string,
  method = "GET",
  headers: HeadersInit = {},
  body: string | null = null,
): Promise<Response> {
  return exports.default.fetch(url, { method, headers, body });
}

export async function statusOf(url: string, method = "GET"): Promise<number> {
  const response = await follow(url, method);
  await response.body?.cancel();
  return response.status;
}

export async function isPending({ owner, sessionId }: Asking): Promise<boolean> {
  const view = await (await get(`/api/sessions/${sessionId}`, owner)).json<{ pendingPermissions: Json[] }>();
  return view.pendingPermissions.length === 1;
}

/** A request to the Worker with some bindings replaced. */
export async function withBindings(
  bindings: Partial<Env>,
  url: string,
  init: RequestInit = {},
): Promise<Response> {
  return app.fetch(new Request(url, init), { ...env, ...bindings }, createExecutionContext());
}

const trap = () =>
  new Proxy({} as never, {
    get() {
      throw new Error("an object was asked");
    },
  });
export const UNTOUCHABLE = {
  ACP_SESSION_DO: trap(),
  TENANT_DO: trap(),
  WORKSPACE_STATE_DO: trap(),
  INDEX: trap(),
};
