/** Private repositories: the token reaches their git server, and nothing else. */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { temporaryDirectory } from "../fixtures/temporary-directory.ts";
import { Client } from "./client.ts";
import { startGateway, withWorkspace } from "./gateway.ts";
import { GitServer } from "./git-server.ts";
import { textOf } from "./updates.ts";

const ENTRYPOINT = fileURLToPath(new URL("../../src/container/entrypoint.sh", import.meta.url));
const TOKEN = "ghp_sesame/with+odd:characters";
/** Stands in for the host: prints the environment that it inherited. */
const PROGRAM = [process.execPath, "-e", "console.log(JSON.stringify(process.env))"];

async function enter(env: Record<string, string>): Promise<Record<string, string>> {
  const { stdout } = await promisify(execFile)(ENTRYPOINT, PROGRAM, {
    env: { PATH: process.env.PATH, HOME: temporaryDirectory(), ACP_EDGE_HOST_TOKEN: "host-token", ...env },
  });
  return JSON.parse(stdout) as Record<string, string>;
}

/** The command lines of all processes of this machine, and the environments that can be read. */
function commandLines(): string {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8");
      } catch {
        return "";
      }
    })
    .join("\n");
}

/** The text of every file of a directory. */
function filesIn(directory: string): string {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"))
    .join("\n");
}

describe("the entry point of a container", () => {
  test.each([
    ["x-access-token", {}],
    ["bot", { GIT_USERNAME: "bot" }],
  ])("clones a private repository as %s, and keeps the token to itself", async (user, more) => {
    await using server = await GitServer.start(`${user}:${TOKEN}`);
    const seen: string[] = [];
    server.onRequest = () => void seen.push(commandLines());
    const root = temporaryDirectory();
    const env = await enter({ ACP_EDGE_ROOT: root, GIT_URL: server.url, GIT_TOKEN: TOKEN, ...more });
    expect(readFileSync(join(root, ".git/config"), "utf8")).toContain(`url = ${server.url}`);
    expect(seen.length).toBeGreaterThan(1);
    expect(seen.join()).toContain(server.url);
    for (const text of [...seen, ...server.paths, filesIn(root), JSON.stringify(env)])
      expect(text).not.toContain("sesame");
    expect(Object.keys(env).filter((name) => /TOKEN|USERNAME|ASK/.test(name))).toEqual([
      "ACP_EDGE_HOST_TOKEN_FD",
    ]);
  });

  test("fails without a token or with a wrong one, and asks nobody", async () => {
    await using server = await GitServer.start(`x-access-token:${TOKEN}`);
    for (const more of [{}, { GIT_TOKEN: "" }, { GIT_TOKEN: "wrong" }]) {
      const env = { ACP_EDGE_ROOT: temporaryDirectory(), GIT_URL: server.url, ...more };
      const failure = await enter(env).catch((error: { code: number; stderr: string }) => error);
      expect(failure).toMatchObject({ code: 128, stderr: expect.stringContaining("fatal") });
    }
  });

  test("tells the token to no server that the repository's own server redirects to", async () => {
    await using thief = await GitServer.start("nobody:knows");
    await using server = await GitServer.start(`x-access-token:${TOKEN}`);
    server.redirect = thief.url;
    const env = { ACP_EDGE_ROOT: temporaryDirectory(), GIT_URL: server.url, GIT_TOKEN: TOKEN };
    await expect(enter(env)).rejects.toMatchObject({ code: 128 });
    expect(thief.authorizations).toContain(undefined);
    expect(thief.authorizations.filter((header) => header !== undefined)).toEqual([]);
  });

  test("runs the host without git where there is nothing to clone", async () => {
    const env = await enter({ ACP_EDGE_ROOT: temporaryDirectory(), GIT_TOKEN: TOKEN });
    expect(JSON.stringify(env)).not.toContain("sesame");
  });
});

test("a workspace clones its private repository with its secret GIT_TOKEN, which no agent and no reader sees", async () => {
  await using server = await GitServer.start(`x-access-token:${TOKEN}`, { tls: true });
  await using gateway = await startGateway({
    args: ["--on-demand", "--agents", "demo"],
    env: { GIT_SSL_NO_VERIFY: "1" },
  });
  const own = await withWorkspace(gateway, "private");
  const put = (path: string, body: object) =>
    own.api(`/api/workspaces/private${path}`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const withCredentials = server.url.replace("https://", `https://x:${encodeURIComponent(TOKEN)}@`);
  const refused = await put("", { container: { git: { url: withCredentials } } });
  expect(refused.status).toBe(400);
  const why = await refused.text();
  expect(why).toContain("GIT_TOKEN");
  expect(why).not.toContain("sesame");

  expect((await put("/secrets/GIT_TOKEN", { value: TOKEN })).status).toBe(204);
  expect((await put("", { container: { git: { url: server.url } } })).status).toBe(200);
  await using client = await Client.connect(own);
  const session = await client.newSession();
  for (const name of ["GIT_TOKEN", "GIT_USERNAME"]) {
    const { updates } = await client.prompt(session, `/env ${name}`);
    expect(textOf(updates)).toContain(`${name} is not set`);
  }
  expect(server.authorizations.at(-1)).toBeDefined();
  const shown = await (await own.api("/api/workspaces/private")).text();
  const { hosts } = JSON.parse(shown) as { hosts: { root: string }[] };
  expect(readFileSync(join(hosts[0]?.root as string, ".git/config"), "utf8")).toContain(server.url);
  const audit = await (await own.api("/api/audit?kind=workspace.changed")).text();
  for (const text of [shown, audit, gateway.log(), commandLines()]) expect(text).not.toContain("sesame");
});
