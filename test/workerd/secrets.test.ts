import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { base64url, CompactEncrypt, decodeProtectedHeader } from "jose";
import { afterEach, describe, expect, test, vi } from "vitest";
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

const ORIGINAL_KEY = env.SECRETS_KEY as string;

afterEach(() => {
  env.SECRETS_KEY = ORIGINAL_KEY;
  delete env.SECRETS_KEY_PREVIOUS;
});

const NEW_KEY = Buffer.alloc(32, 7).toString("base64url");

function storedSecret(workspace: string): Promise<string> {
  return runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
    return storage.sql.exec<{ value: string }>("SELECT value FROM secret WHERE name = 'A_KEY'").one().value;
  });
}

function storeSecret(workspace: string, value: string): Promise<void> {
  return runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
    storage.sql.exec("UPDATE secret SET value = ? WHERE name = 'A_KEY'", value);
  });
}

/** As the builds before keys had ids made it. */
function earlierForm(name: string, value: string): Promise<string> {
  return new CompactEncrypt(new TextEncoder().encode(value))
    .setProtectedHeader({ alg: "dir", enc: "A256GCM", sub: name })
    .encrypt(base64url.decode(env.SECRETS_KEY as string));
}

/** Gives the gateway other keys and restarts the workspace. */
async function rotate(workspace: string, key: string, previous?: string): Promise<void> {
  env.SECRETS_KEY = key;
  if (previous === undefined) delete env.SECRETS_KEY_PREVIOUS;
  else env.SECRETS_KEY_PREVIOUS = previous;
  await evictDurableObject(workspaceStub(workspace));
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

  test("cannot be decrypted in another workspace or tenant", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const { workspace, admin, path } = await fresh();
    await send("PUT", `${path}/A_KEY`, admin, { value: VALUE });
    const stolen = await storedSecret(workspace);
    const elsewhere = await fresh();
    await send("PUT", `${elsewhere.path}/A_KEY`, elsewhere.admin, { value: "another" });
    await storeSecret(elsewhere.workspace, stolen);
    const host = await join(elsewhere.workspace, { secrets: true });
    expect(await host.takeJson()).toEqual({ t: "secrets", values: {} });
    expect(log).toHaveBeenCalledWith("secret cannot be read", {
      name: "A_KEY",
      error: "Error: the value belongs to another place",
    });
    log.mockRestore();
  });

  test("is encrypted again under a new key, and readable without the old one from then on", async () => {
    const { workspace, admin, path } = await fresh();
    await send("PUT", `${path}/A_KEY`, admin, { value: VALUE });
    const before = await storedSecret(workspace);
    await rotate(workspace, NEW_KEY, ORIGINAL_KEY);
    // Listing the names is enough.
    expect((await get(path, admin)).status).toBe(200);
    const after = await storedSecret(workspace);
    expect(decodeProtectedHeader(after).kid).not.toBe(decodeProtectedHeader(before).kid);
    await rotate(workspace, NEW_KEY);
    const host = await join(workspace, { secrets: true });
    expect(await host.takeJson()).toEqual({ t: "secrets", values: { A_KEY: VALUE } });
    expect(await storedSecret(workspace)).toBe(after);
  });

  test("is read by hosts under a previous key of several, and lost without it", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const { workspace, admin, path } = await fresh();
    await send("PUT", `${path}/A_KEY`, admin, { value: VALUE });
    const before = await storedSecret(workspace);
    await rotate(workspace, NEW_KEY);
    const without = await join(workspace, { secrets: true });
    expect(await without.takeJson()).toEqual({ t: "secrets", values: {} });
    await without.leave();
    expect(await storedSecret(workspace)).toBe(before);
    await rotate(workspace, NEW_KEY, `${Buffer.alloc(32, 9).toString("base64url")} ${ORIGINAL_KEY}`);
    const host = await join(workspace, { secrets: true });
    expect(await host.takeJson()).toEqual({ t: "secrets", values: { A_KEY: VALUE } });
    expect(await storedSecret(workspace)).not.toBe(before);
    log.mockRestore();
  });

  test("in the form of earlier builds is read, and stored in the newest form", async () => {
    const { workspace, admin, path } = await fresh();
    await send("PUT", `${path}/A_KEY`, admin, { value: "replaced" });
    await storeSecret(workspace, await earlierForm("A_KEY", VALUE));
    const host = await join(workspace, { secrets: true });
    expect(await host.takeJson()).toEqual({ t: "secrets", values: { A_KEY: VALUE } });
    expect(decodeProtectedHeader(await storedSecret(workspace))).toMatchObject({
      kid: expect.any(String),
      sub: JSON.stringify(["acme", workspace, "A_KEY"]),
    });
  });

  test("in the form of earlier builds cannot be decrypted under another name", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const { workspace, admin, path } = await fresh();
    await send("PUT", `${path}/A_KEY`, admin, { value: "replaced" });
    await storeSecret(workspace, await earlierForm("B_KEY", VALUE));
    const host = await join(workspace, { secrets: true });
    expect(await host.takeJson()).toEqual({ t: "secrets", values: {} });
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

  test("of a webhook is encrypted again as well, when its webhooks are listed", async () => {
    const { workspace, admin } = await fresh();
    const path = `/api/workspaces/${workspace}/webhooks`;
    expect((await send("POST", path, admin, { url: "https://receiver.test/" })).status).toBe(201);
    const key = () =>
      runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
        const { secret } = storage.sql.exec<{ secret: string }>("SELECT secret FROM webhook").one();
        return decodeProtectedHeader(secret).kid;
      });
    const before = await key();
    await rotate(workspace, NEW_KEY, ORIGINAL_KEY);
    expect((await get(path, admin)).status).toBe(200);
    expect(await key()).not.toBe(before);
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
