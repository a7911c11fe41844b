import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { readAttachment } from "../../../src/durable/attachments.ts";
import type { Quota } from "../../../src/protocol/rpc.ts";
import { prompt, subjectStub } from "../fixtures.ts";
import { Client } from "../peers/client.ts";

import { type Claims, mint } from "../tokens.ts";

export const HOUR = 3_600_000;

/** A user of a new tenant, so that no other test counts. */
export async function user(claims: Claims = {}) {
  const of = { tenant: `t-${crypto.randomUUID()}`, sub: "ann", workspaces: ["w"], exp: 100_000, ...claims };
  const bearer = await mint(of);
  return { ...of, bearer, subjectObject: subjectStub(of.sub, of.tenant) };
}
export type User = Awaited<ReturnType<typeof user>>;

export async function connect({ bearer }: User, query = "", path = "/acp") {
  const response = await exports.default.fetch(`https://edge.test${path}${query}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
  });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  const client = new Client(response.webSocket);
  const id = response.headers.get("Acp-Connection-Id") as string;
  return { client, object: env.ACP_CONNECTION_DO.getByName(id) };
}

export async function open(someone: User, query = "") {
  const opened = await connect(someone, query);
  await opened.client.request("initialize", { protocolVersion: 1 });
  return opened;
}

/** A session that does not exist: a prompt answered with "not found" has passed the quota. */
export const NOWHERE = crypto.randomUUID();
export const codeOf = (response: Record<string, unknown>) => (response.error as { code: number }).code;
export const TAKEN = -32002;
export const REFUSED = -32004;

/** Sends this many prompts at once; returns how many passed the quota. */
export async function prompts(client: Client, count: number): Promise<number> {
  for (let n = 0; n < count; n += 1) client.call("session/prompt", prompt(NOWHERE));
  const codes: number[] = [];
  // A refusal may overtake the answer of a session.
  while (codes.length < count) codes.push(codeOf(await client.takeJson()));
  expect(codes.every((code) => code === TAKEN || code === REFUSED)).toBe(true);
  return codes.filter((code) => code === TAKEN).length;
}

/** The amount of the quota that the subject was given. */
export function given({ tenant, sub }: User, quota: Quota, subject = sub): Promise<number> {
  return runInDurableObject(
    subjectStub(subject, tenant),
    (_, { storage }) =>
      storage.sql.exec<{ given: number }>("SELECT given FROM quota WHERE quota = ?", quota).toArray()[0]
        ?.given ?? 0,
  );
}

/** A request of exactly this length. */
export function asking(chars: number, id: number | string): string {
  const text = (pad: string) => JSON.stringify({ jsonrpc: "2.0", id, method: "no/such", params: { pad } });
  return text("x".repeat(chars - text("").length));
}

/** The allowance a connection's object has left. */
export function held(object: DurableObjectStub): Promise<number> {
  return runInDurableObject(object, (_, state) => {
    const [socket] = state.getWebSockets();
    return (socket && readAttachment(socket, "client")?.allowance?.left.chars) ?? 0;
  });
}

export const startOfHour = () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Math.floor(Date.now() / HOUR) * HOUR + 1000);
};
