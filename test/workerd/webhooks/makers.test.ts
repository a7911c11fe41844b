import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import type { Revocation } from "../../../src/protocol/rest-tenant.ts";
import { get, type Opened, openSession, send, workspaceStub } from "../fixtures.ts";
import { ALL_OF_A_CLIENT, mint, WORKSPACE_ADMIN } from "../tokens.ts";
import { adminOf, ask, type Made, received, receiver, receiveWebhooks } from "./fixtures.ts";

receiveWebhooks();

const boss = () => mint({ workspaces: ["*"], scopes: ALL_OF_A_CLIENT, sub: "boss" });

/** A webhook with links, whose maker can be revoked. */
async function made(): Promise<{ place: Opened; webhook: Made; maker: string; path: string }> {
  const place = await openSession();
  const maker = crypto.randomUUID();
  const bearer = await mint({ workspaces: [place.workspace], sub: maker, scopes: WORKSPACE_ADMIN });
  const path = `/api/workspaces/${place.workspace}/webhooks`;
  const url = `https://receiver.test/${crypto.randomUUID()}`;
  const response = await send("POST", path, bearer, { url, links: true, events: ["permission.pending"] });
  const webhook = (await response.json()) as Made;
  receiver.secrets.set(url, webhook.secret);
  return { place, webhook, maker, path };
}

async function revoked(subject: string): Promise<() => Promise<void>> {
  const response = await send("POST", "/api/revocations", await boss(), { subject });
  const { id } = (await response.json()) as Revocation;
  return async () => {
    expect((await get(`/api/revocations/${id}`, await boss(), "DELETE")).status).toBe(204);
  };
}

async function linkIn(index: number): Promise<number> {
  const text = JSON.stringify(receiver.received[index]?.message);
  const url = /https:[^"]*\/answer\?link=[^"]*/.exec(text)?.[0] ?? "";
  return (await get(url.slice("https://edge.test".length))).status;
}

describe("a webhook of a revoked maker", () => {
  test("pauses, says why, and delivers what waited when it is adopted; its old links stay dead", async () => {
    const { place, webhook, maker, path } = await made();
    await ask(place);
    await received(1);
    expect(await linkIn(0)).toBe(200);
    const lift = await revoked(maker);
    const { list, bearer, audit } = await adminOf(place.workspace);
    expect(await list()).toMatchObject([{ by: maker, pausedReason: "maker-revoked" }]);
    expect(await linkIn(0)).toBe(404);
    expect((await get(`${path}/${webhook.id}/test`, bearer, "POST")).status).toBe(409);
    place.agent.items(
      JSON.stringify({
        ...{ jsonrpc: "2.0", id: 8, method: "session/request_permission" },
        params: {
          ...{ sessionId: "agent-session", toolCall: { toolCallId: "t2" } },
          options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
        },
      }),
    );
    await vi.waitUntil(async () => (await list())[0]?.waiting === 1);
    expect(receiver.received).toHaveLength(1);

    const adopted = await get(`${path}/${webhook.id}/adopt`, bearer, "POST");
    expect(await adopted.json()).toMatchObject({ id: webhook.id, by: "someone", pausedReason: null });
    await received(2);
    expect(await linkIn(0)).toBe(404);
    expect(await linkIn(1)).toBe(200);
    expect(await audit("webhook.adopted")).toMatchObject([
      { subject: "someone", workspace: place.workspace },
    ]);
    await lift();
    expect(await list()).toMatchObject([{ by: "someone", pausedReason: null }]);
    // The former maker has no hold on it any more.
    await revoked(maker);
    expect(await list()).toMatchObject([{ pausedReason: null }]);
  });

  test("goes on when the revocation is lifted, and stays gone when it was removed", async () => {
    const { place, webhook, maker, path } = await made();
    const lift = await revoked(maker);
    const { list, bearer } = await adminOf(place.workspace);
    await ask(place);
    await vi.waitUntil(async () => (await list())[0]?.waiting === 1);
    await lift();
    await received(1);
    expect(await list()).toMatchObject([{ pausedReason: null, waiting: 0 }]);
    const liftAgain = await revoked(maker);
    expect((await get(`${path}/${webhook.id}`, bearer, "DELETE")).status).toBe(204);
    await liftAgain();
    expect(await list()).toEqual([]);
  });

  test("stays paused while another revocation covers the maker", async () => {
    const { place, maker } = await made();
    const lift = await revoked(maker);
    const narrow = { subject: maker, workspace: place.workspace };
    expect((await send("POST", "/api/revocations", await boss(), narrow)).status).toBe(201);
    await lift();
    const { list } = await adminOf(place.workspace);
    expect(await list()).toMatchObject([{ pausedReason: "maker-revoked" }]);
  });
});

test("a webhook of a build that kept no makers waits to be adopted", async () => {
  const { place, webhook, path } = await made();
  const stub = workspaceStub(place.workspace);
  await runInDurableObject(stub, (_, { storage }) => {
    storage.sql.exec("ALTER TABLE webhook DROP COLUMN maker; ALTER TABLE webhook DROP COLUMN pausedReason");
    storage.sql.exec("ALTER TABLE session_message DROP COLUMN tries");
    storage.sql.exec("ALTER TABLE session_message DROP COLUMN next");
    storage.kv.put("schema:workspace", 3);
  });
  await evictDurableObject(stub);
  const { list, bearer } = await adminOf(place.workspace);
  expect(await list()).toMatchObject([{ id: webhook.id, by: null, pausedReason: "maker-unknown" }]);
  expect(await workspaceStub(place.workspace).isWebhookActive(webhook.id)).toBe(false);
  expect((await get(`${path}/${webhook.id}/adopt`, bearer, "POST")).status).toBe(200);
  expect(await workspaceStub(place.workspace).isWebhookActive(webhook.id)).toBe(true);
});
