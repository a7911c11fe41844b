import { abortAllDurableObjects } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { RESUMABLE } from "../../../src/protocol/resumable-wire.ts";
import { openSession, socketsOf, subjectStub } from "../fixtures.ts";
import { setLimits, setLimitsOf } from "../limits.ts";
import { Client } from "../peers/client.ts";
import { JSON_TYPE } from "../peers/http-client.ts";
import { INITIALIZE } from "../routes/place.ts";
import { mint } from "../tokens.ts";

/** The connections of one user: counted and entered in one step, so that no race opens one too many. */

afterEach(() => {
  vi.useRealTimers();
});

const LIMIT = 10;
const UPGRADE = { Upgrade: "websocket" };

async function someone(tenant = `t-${crypto.randomUUID()}`) {
  setLimits({ socketsPerSubject: LIMIT });
  const sub = crypto.randomUUID();
  const headers = { Authorization: `Bearer ${await mint({ tenant, sub, workspaces: ["w"] })}` };
  const ask = (path: string, init: RequestInit = {}) =>
    exports.default.fetch(`https://edge.test${path}`, { ...init, headers: { ...headers, ...init.headers } });
  const counted = () => subjectStub(sub, tenant).countSockets();
  return { tenant, sub, headers, ask, counted };
}

async function openMany(open: () => Promise<Response>): Promise<Response[]> {
  const responses = await Promise.all(Array.from({ length: 50 }, open));
  const refused = responses.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(50 - LIMIT);
  for (const response of refused) {
    expect(response.headers.get("Retry-After")).toBe("10");
    await response.body?.cancel();
  }
  return responses.filter(({ status }) => status !== 429);
}

describe("fifty connections that open at once", () => {
  test("become ten WebSockets, and all ten work", async () => {
    const { ask, counted } = await someone();
    const open = await openMany(() => ask("/acp", { headers: UPGRADE }));
    const clients = open.map(({ webSocket }) => new Client(webSocket as WebSocket));
    for (const client of clients) {
      const { response } = await client.request("initialize", { protocolVersion: 1 });
      expect(response).toHaveProperty("result");
    }
    expect(await counted()).toBe(LIMIT);
    clients[0]?.socket.close(1000);
    await vi.waitFor(async () => expect(await counted()).toBe(LIMIT - 1));
    expect((await ask("/acp", { headers: UPGRADE })).status).toBe(101);
  });

  test("get the places of connections that were lost in a reset, and no other place", async () => {
    const { ask, counted } = await someone();
    const open = async () => (await ask("/acp", { headers: UPGRADE })).status;
    for (let i = 0; i < LIMIT / 2; i++) expect(await open()).toBe(101);
    await abortAllDurableObjects();
    for (let i = 0; i < LIMIT; i++) expect(await open()).toBe(101);
    expect(await counted()).toBe(LIMIT);
    expect(await open()).toBe(429);
  });

  test("become ten resumable connections", async () => {
    const { ask, counted } = await someone();
    const headers = { ...UPGRADE, "Sec-WebSocket-Protocol": RESUMABLE };
    const open = await openMany(() => ask("/acp", { headers }));
    for (const { webSocket } of open) webSocket?.accept();
    expect(await counted()).toBe(LIMIT);
    // A connection that comes back has its place.
    const known = open[0]?.headers.get("Acp-Connection-Id") as string;
    const again = await ask("/acp", { headers: { ...headers, "Acp-Connection-Id": known } });
    expect(again.status).toBe(101);
    again.webSocket?.accept();
    expect(await counted()).toBe(LIMIT);
  });

  test("become ten connections over HTTP, and all ten work", async () => {
    const { ask, counted } = await someone();
    const post = (more: Record<string, string>, body: string) =>
      ask("/acp", { method: "POST", headers: { ...JSON_TYPE, ...more }, body });
    const open = await openMany(() => post({}, INITIALIZE));
    expect(await counted()).toBe(LIMIT);
    for (const response of open) {
      const connection = { "Acp-Connection-Id": response.headers.get("Acp-Connection-Id") as string };
      const listing = '{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}';
      expect((await post(connection, listing)).status).toBe(202);
    }
  });

  test("become ten live readers", async () => {
    const { workspace, sessionId } = await openSession();
    const { sub } = await someone("acme");
    await setLimitsOf("acme", { socketsPerSubject: LIMIT });
    const bearer = await mint({ sub, workspaces: [workspace] });
    const watch = (path: string) =>
      exports.default.fetch(`https://edge.test/api/${path}`, {
        headers: { Accept: "text/event-stream", Authorization: `Bearer ${bearer}` },
      });
    let n = 0;
    const open = await openMany(() =>
      watch(n++ % 2 === 0 ? `sessions/${sessionId}/events` : `workspaces/${workspace}`),
    );
    for (const { status, body } of open) {
      expect(status).toBe(200);
      await body?.cancel();
    }
  });
});

describe("a place", () => {
  const registration = (tenant: string, subject: string, id: string) => ({
    ...({ id, kind: "client", tenant, subject, jti: null, workspace: null } as const),
    expires: Math.floor(Date.now() / 1000) + 48 * 3600,
    holder: { class: "connection", name: id } as const,
  });

  test("is not taken by a connection that is refused", async () => {
    const { ask, counted } = await someone();
    const headers = {
      ...UPGRADE,
      "Sec-WebSocket-Protocol": RESUMABLE,
      "Acp-Connection-Id": crypto.randomUUID(),
    };
    expect((await ask("/acp", { headers })).status).toBe(404);
    expect(await counted()).toBe(0);
  });

  test("is free again when nobody has renewed its lease", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { tenant, sub, counted } = await someone();
    const stub = subjectStub(sub, tenant);
    const enter = async (id: string) => (await stub.enter(registration(tenant, sub, id))).result;
    for (let n = 0; n < LIMIT; n++) expect(await enter(`s${n}`)).toBe("registered");
    expect(await counted()).toBe(LIMIT);
    expect(await enter("s0")).toBe("registered");
    vi.setSystemTime(Date.now() + DEFAULT_LIMITS.socketLeaseMs / 2);
    expect(await enter("s1")).toBe("registered");
    vi.setSystemTime(Date.now() + DEFAULT_LIMITS.socketLeaseMs / 2 + 1);
    expect(await counted()).toBe(1);
    expect(await enter("one-more")).toBe("registered");
    expect((await socketsOf(sub, tenant)).toSorted()).toEqual(["one-more", "s1"]);
  });

  test("of another user's connection of the same id is neither taken nor released", async () => {
    const { tenant, sub, ask, counted } = await someone();
    const opened = await ask("/acp", { headers: { ...UPGRADE, "Sec-WebSocket-Protocol": RESUMABLE } });
    opened.webSocket?.accept();
    const connection = opened.headers.get("Acp-Connection-Id") as string;
    const mallory = await someone(tenant);
    const headers = { ...UPGRADE, "Sec-WebSocket-Protocol": RESUMABLE, "Acp-Connection-Id": connection };
    expect((await mallory.ask("/acp", { headers })).status).toBe(404);
    expect(await socketsOf(sub, tenant)).toEqual([connection]);
    expect([await counted(), await mallory.counted()]).toEqual([1, 0]);
  });
});
