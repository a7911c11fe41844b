import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { expect, onTestFinished, test } from "vitest";
import { bundleWorker } from "../../src/cli/local/worker-bundle.ts";

const PROJECT = fileURLToPath(new URL("../../", import.meta.url));

/** A Worker that calls a method of a tenant's object, or of the record of its jurisdiction. */
const CALLER = `
  export { TenantState } from "./worker.js";
  export default {
    async fetch(request, env) {
      const { name, method, args } = await request.json();
      try {
        return Response.json({ value: (await env.TENANT_DO.getByName(name)[method](...args)) ?? null });
      } catch (error) {
        return Response.json({ error: String(error) });
      }
    },
  };
`;

/** Starts the Worker on a state. A tenant that runs has checked its jurisdiction, so another start is needed to see it. */
async function start(state: string): Promise<Miniflare> {
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      log: new Log(LogLevel.NONE),
      handleStructuredLogs: () => {},
      cf: false,
      compatibilityDate: "2026-08-15",
      resourcePersistencePath: state,
      durableObjects: { TENANT_DO: { className: "TenantState", useSQLite: true } },
      modules: [
        { type: "ESModule", path: "caller.js", contents: CALLER },
        { type: "ESModule", path: "worker.js", contents: await bundleWorker(PROJECT, "src/worker.ts") },
      ],
    }),
  );
  await miniflare.ready;
  return miniflare;
}

async function call(
  miniflare: Miniflare,
  name: string,
  method: string,
  ...args: unknown[]
): Promise<unknown> {
  const body = JSON.stringify({ name, method, args });
  const response = await miniflare.dispatchFetch("http://tenant.test", { method: "POST", body });
  return response.json();
}

test("a tenant whose objects are in another jurisdiction answers no call, and any other tenant does", async () => {
  const state = mkdtempSync(join(tmpdir(), "acp-edge-regions-"));
  onTestFinished(() => rmSync(state, { recursive: true, force: true }));
  const [tenant, other] = [randomUUID(), randomUUID()];
  const question = { subject: "ada", jti: "t1" };
  const before = await start(state);
  expect(await call(before, `${tenant}/jurisdiction`, "claimJurisdiction", "eu")).toEqual({ value: "eu" });
  await before.dispose();
  const after = await start(state);
  onTestFinished(() => after.dispose());
  for (const method of ["isRevoked", "isMakerRevoked", "isRevoked"])
    expect(await call(after, tenant, method, question)).toEqual({
      error: expect.stringContaining(
        `the objects of ${tenant} are in eu, and REGIONS says in no jurisdiction`,
      ),
    });
  expect(await call(after, other, "isRevoked", question)).toEqual({ value: false });
});
