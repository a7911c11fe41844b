import { runDurableObjectAlarm } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { Client } from "../peers/client.ts";

import { JSON_TYPE } from "../peers/http-client.ts";
import { ALL_OF_A_CLIENT, type Claims, mint } from "../tokens.ts";

export const HOUR = 3_600_000;

export async function ask(method: string, path: string, bearer: string, body?: unknown): Promise<Response> {
  return exports.default.fetch(`https://edge.test${path}`, {
    method,
    headers: { Authorization: `Bearer ${bearer}`, ...JSON_TYPE },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

export const admin = (claims: Claims = {}) => mint({ scopes: ALL_OF_A_CLIENT, sub: "admin", ...claims });

export async function revoke(what: object): Promise<{ id: string }> {
  const response = await ask("POST", "/api/revocations", await admin({ workspaces: ["*"] }), what);
  expect(response.status).toBe(201);
  return response.json();
}

/** A client on a WebSocket with the given token. */
export async function connect(bearer: string, query = ""): Promise<{ client: Client; connection: string }> {
  const response = await exports.default.fetch(`https://edge.test/acp${query}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
  });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  const client = new Client(response.webSocket);
  await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return { client, connection: response.headers.get("Acp-Connection-Id") as string };
}

/** Lets time pass and runs the object's alarm, which would have run meanwhile. */
export async function pass(ms: number, stub: DurableObjectStub): Promise<void> {
  vi.setSystemTime(Date.now() + ms);
  await runDurableObjectAlarm(stub);
}

export const fakeTime = () => vi.useFakeTimers({ toFake: ["Date"] });
