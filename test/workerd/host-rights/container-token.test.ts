import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { exportJWK, generateKeyPair } from "jose";
import { describe, expect, test, vi } from "vitest";
import { mintHostToken } from "../../../src/workspace/container/minted-token.ts";
import { workspaceName, workspaceStub } from "../fixtures.ts";
import { Peer } from "../peers/peer.ts";
import { mint } from "../tokens.ts";

/** A workspace whose container runs with a token that the workspace has issued. */
async function withContainer() {
  const { privateKey } = await generateKeyPair("EdDSA", { extractable: true });
  env.HOST_SIGNING_KEY ??= JSON.stringify({ ...(await exportJWK(privateKey)), alg: "EdDSA", kid: "hosts" });
  const [tenant, workspace] = [crypto.randomUUID(), workspaceName()];
  const stub = workspaceStub(workspace, tenant);
  // A host makes the workspace known.
  await Peer.connect("/host/control", await mint({ tenant, workspaces: [workspace], scopes: ["host"] }));
  const issued = await mintHostToken(env.HOST_SIGNING_KEY, { tenant, workspace, host: "container" }, 600_000);
  const { token, jti, expires } = issued;
  await runInDurableObject(stub, (_, { storage }) => {
    const set = (name: string, value: unknown) =>
      storage.sql.exec("INSERT OR REPLACE INTO setting VALUES (?, ?)", name, JSON.stringify(value));
    set("container-life", { state: "up", startNumber: 1, since: Date.now(), failures: 0, reason: null });
    set("container-tokens", [{ jti, expires }]);
  });
  return { stub, token, tenantObject: env.TENANT_DO.getByName(tenant) };
}

const dial = (token: string) => Peer.connect("/host/control", token);

/** A Worker may accept the token for a moment by its cached answer. */
const refused = (token: string) => vi.waitFor(() => expect(dial(token)).rejects.toThrow("401"));

const pending = (stub: DurableObjectStub) =>
  runInDurableObject(stub, (_, { storage }) => {
    const [row] = storage.sql.exec("SELECT value FROM setting WHERE name = 'container-tokens'").toArray();
    return JSON.parse(row?.value as string) as unknown[];
  });

describe("the token of a container that has ended", () => {
  test("is refused, and its sockets are closed", async () => {
    const { stub, token } = await withContainer();
    const control = await dial(token);
    await stub.hostEnded(1, "ended");
    expect((await control.closed).code).toBe(4401);
    await vi.waitFor(async () => expect(await pending(stub)).toEqual([]));
    await refused(token);
  });

  test("is ended later if the tenant fails at first", async () => {
    const { stub, token, tenantObject } = await withContainer();
    const rename = (from: string, to: string) =>
      runInDurableObject(tenantObject, (_, { storage }) => {
        storage.sql.exec(`ALTER TABLE ${from} RENAME TO ${to}`);
      });
    const failed = vi.spyOn(console, "error").mockImplementation(() => {});
    // The host's socket has made the tables of the tenant.
    await vi.waitFor(() => rename("logout", "elsewhere"));
    await stub.hostEnded(1, "ended");
    await vi.waitFor(() =>
      expect(failed).toHaveBeenCalledWith("tokens of a container not ended", expect.anything()),
    );
    expect(await pending(stub)).toMatchObject([{ isEnding: true }]);
    await rename("elsewhere", "logout");
    await runInDurableObject(stub, (_, { storage }) => {
      storage.sql.exec("UPDATE deadline SET at = 1 WHERE name = 'ended-tokens'");
    });
    await runDurableObjectAlarm(stub);
    expect(await pending(stub)).toEqual([]);
    await refused(token);
    failed.mockRestore();
  });
});
