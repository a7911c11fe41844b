import { expect, test } from "vitest";
import { CLIENT_CLAIMS, loadSigner } from "../../src/cli/token-signer.ts";
import { Client } from "./client.ts";
import { acpEdge, environmentOf } from "./command.ts";
import { eventually, startGateway } from "./gateway.ts";

test("acp-edge reindex writes the index anew and says what it has done", async () => {
  await using gateway = await startGateway();
  const editor = await Client.connect(gateway);
  const sessionId = await editor.newSession();
  await eventually(async () => (await (await gateway.api("/api/sessions")).text()).includes(sessionId));
  const env = environmentOf(gateway);
  const run = (...args: string[]) => acpEdge(args, env);
  const inLocal = (...args: string[]) => acpEdge(args, { ...env, ACP_EDGE_WORKSPACE: "local" });
  const one = await run("reindex", "--workspace", "local", "--json");
  expect(JSON.parse(one.stdout)).toMatchObject({
    ...{ state: "finished", sessions: 1, removed: 0, failed: 0, workspaces: null },
  });
  const ofLocal = "finished: 1 session written in the workspace local, 0 removed, 0 failed\n";
  expect((await inLocal("reindex")).stdout).toBe(ofLocal);
  expect((await inLocal("reindex", "--progress")).stdout).toBe(ofLocal);
  const ofAll = "finished: 1 session written in 1 workspace of the tenant, 0 removed, 0 failed\n";
  expect((await run("reindex")).stdout).toBe(ofAll);
  expect((await inLocal("reindex", "--all")).stdout).toBe(ofAll);
  const begun = await run("reindex", "--no-follow");
  expect(begun.stdout).toMatch(/^running: /);
  expect(begun.stderr).toContain("acp-edge reindex --progress --all");
  expect((await run("reindex", "--workspace", "unknown")).code).toBe(5);
  expect((await run("reindex", "--workspace", "local", "--all")).code).toBe(2);

  const signer = await loadSigner(gateway.state);
  const token = await signer.sign({ ...CLIENT_CLAIMS, scopes: ["workspace:admin"] }, "1 hour");
  const admin = { ...env, ACP_EDGE_TOKEN: token };
  const refused = await acpEdge(["reindex"], admin);
  expect(refused).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("tenant:admin: name a workspace"),
  });
  expect((await acpEdge(["reindex", "--workspace", "local"], admin)).stdout).toBe(ofLocal);
  await editor.close();
});
