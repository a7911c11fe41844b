import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { get, send, workspaceName, workspaceStub } from "./fixtures.ts";
import { HELLO, Host } from "./peers/host.ts";
import { dialHost } from "./peers/peer.ts";
import { token } from "./tokens.ts";

/** The secrets of a workspace: administrators set them, hosts get them, nobody can read them. */

const VALUE = `sk-${crypto.randomUUID()}`;

async function fresh() {
  const workspace = workspaceName();
  const admin = await token({ workspace, scopes: ["session:read", "workspace:admin"] });
  const path = `/api/workspaces/${workspace}/secrets`;
  return { workspace, admin, path };
}

const NEEDY = { id: "needy", name: "Needy", default: true, available: false, reason: "needs A_KEY" };

async function join(workspace: string, more: object = {}): Promise<Host> {
  const host = new Host(await dialHost(workspace, "/host/control"), workspace);
  const instance = crypto.randomUUID();
  const hello = { ...HELLO, instance, agents: [NEEDY], ...more };
  host.send(JSON.stringify(hello));
  expect(await host.takeJson()).toEqual({ t: "welcome" });
  return host;
}

describe("a secret of a workspace", () => {
  test("is sent to the hosts at once and when they connect", async () => {
    const { workspace, admin, path } = await fresh();
    const here = await join(workspace);
    expect((await send("PUT", `${path}/A_KEY`, admin, { value: VALUE })).status).toBe(204);
    expect(await here.takeJson()).toEqual({ t: "secrets", values: { A_KEY: VALUE } });
    const later = await join(workspace, { name: "h2" });
    expect(await later.takeJson()).toEqual({ t: "secrets", values: { A_KEY: VALUE } });
    await send("PUT", `${path}/B_KEY`, admin, { value: "other" });
    expect(await later.takeJson()).toEqual({ t: "secrets", values: { A_KEY: VALUE, B_KEY: "other" } });
  });

  test("is withdrawn from the hosts, even from one that was away", async () => {
    const { workspace, admin, path } = await fresh();
    const host = await join(workspace);
    await send("PUT", `${path}/A_KEY`, admin, { value: VALUE });
    await host.takeJson();
    expect((await get(`${path}/A_KEY`, admin, "DELETE")).status).toBe(204);
    expect(await host.takeJson()).toEqual({ t: "secrets", values: {} });
    await host.leave();
    const back = await join(workspace, { secrets: true });
    expect(await back.takeJson()).toEqual({ t: "secrets", values: {} });
    // Deleting an unknown secret succeeds.
    expect((await get(`${path}/A_KEY`, admin, "DELETE")).status).toBe(204);
  });

  test("shows its name and date, never its value, and is stored encrypted", async () => {
    const log = vi.spyOn(console, "error");
    const { workspace, admin, path } = await fresh();
    await send("PUT", `${path}/A_KEY`, admin, { value: VALUE });
    expect(await (await get(path, admin)).json()).toEqual({
      secrets: [{ name: "A_KEY", updatedAt: expect.stringMatching(/^\d{4}-.*Z$/) }],
    });
    const view = await (await get(`/api/workspaces/${workspace}`, admin)).text();
    expect(view).not.toContain(VALUE);
    const stub = workspaceStub(workspace);
    const stored = await runInDurableObject(stub, (_, ctx) =>
      JSON.stringify(ctx.storage.sql.exec("SELECT * FROM secret").toArray()),
    );
    expect(stored).toContain("A_KEY");
    expect(stored).not.toContain(VALUE);
    expect(JSON.stringify(log.mock.calls)).not.toContain(VALUE);
  });

  test("cannot be decrypted under another name", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const { workspace, admin, path } = await fresh();
    await send("PUT", `${path}/A_KEY`, admin, { value: VALUE });
    const stub = workspaceStub(workspace);
    await runInDurableObject(stub, (_, ctx) => {
      ctx.storage.sql.exec("UPDATE secret SET name = 'B_KEY'");
    });
    const host = await join(workspace, { secrets: true });
    expect(await host.takeJson()).toEqual({ t: "secrets", values: {} });
    expect(log).toHaveBeenCalledWith("secret cannot be read", expect.objectContaining({ name: "B_KEY" }));
    log.mockRestore();
  });

  test("makes an agent available that needs it, once the host says so", async () => {
    const { workspace, admin, path } = await fresh();
    const host = await join(workspace);
    host.send(JSON.stringify({ t: "offers", agents: [{ ...NEEDY, available: true, reason: undefined }] }));
    await send("PUT", `${path}/A_KEY`, admin, { value: VALUE });
    await expect
      .poll(async () => (await get("/api/agents", admin)).json())
      .toMatchObject({ agents: [{ id: "needy", available: true, reason: null }] });
  });

  test.each([
    ["9LIVES", { value: "x" }],
    ["ACP_EDGE_HOST_TOKEN", { value: "x" }],
    ["A_KEY", { value: "" }],
    ["A_KEY", { value: "a\0b" }],
    ["A_KEY", { value: 7 }],
    ["A_KEY", { value: "x", more: 1 }],
    ["A_KEY", null],
  ])("is refused with the name %s and the value %j", async (name, body) => {
    const { admin, path } = await fresh();
    expect((await send("PUT", `${path}/${name}`, admin, body)).status).toBe(400);
  });

  test("is managed by administrators of the workspace alone", async () => {
    const { workspace, admin, path } = await fresh();
    const reader = await token({ workspace });
    const stranger = await token({ workspace: "other", scopes: ["session:read", "workspace:admin"] });
    for (const [bearer, status] of [
      [reader, 403],
      [stranger, 404],
    ] as const) {
      expect((await get(path, bearer)).status).toBe(status);
      expect((await send("PUT", `${path}/A_KEY`, bearer, { value: "x" })).status).toBe(status);
      expect((await get(`${path}/A_KEY`, bearer, "DELETE")).status).toBe(status);
    }
    expect(await (await get(path, admin)).json()).toEqual({ secrets: [] });
  });

  test("is one of at most a hundred", async () => {
    const { admin, path } = await fresh();
    for (let n = 0; n < 100; n++)
      expect((await send("PUT", `${path}/K${n}`, admin, { value: "x" })).status).toBe(204);
    expect((await send("PUT", `${path}/ONE_MORE`, admin, { value: "x" })).status).toBe(409);
    expect((await send("PUT", `${path}/K7`, admin, { value: "y" })).status).toBe(204);
  });
});
