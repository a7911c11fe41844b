import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { acpEdge, environmentOf, type Program, startAcpEdge } from "./command.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";

/** The package that `npm pack` makes, installed as a user would, on the machine's own Node. */

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);

let directory: string;
let installed: string;
let program: Program;
let gateway: Gateway;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "acp-edge-package-"));
  [gateway, installed] = await Promise.all([startGateway(), packAndInstall()]);
  program = [machinesNode(), join(installed, "dist/cli/acp-edge.js")];
}, 120_000);
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

/** Packs a copy, because packing rewrites the manifest for a moment while other tests read it. */
async function packAndInstall(): Promise<string> {
  const [copy, user] = [join(directory, "copy"), join(directory, "user")];
  for (const name of ["package.json", "README.md", "src"])
    cpSync(join(PROJECT, name), join(copy, name), { recursive: true });
  symlinkSync(join(PROJECT, "node_modules"), join(copy, "node_modules"));
  const manifest = readFileSync(join(copy, "package.json"), "utf8");
  await run("npm", ["pack", "--silent", "--pack-destination", directory], { cwd: copy });
  expect(readFileSync(join(copy, "package.json"), "utf8")).toBe(manifest);
  const [tarball] = readdirSync(directory).filter((name) => name.endsWith(".tgz"));
  const install = ["install", "--offline", "--no-audit", "--no-fund", "--prefix", user];
  await run("npm", [...install, join(directory, tarball as string)], { cwd: directory });
  expect(readdirSync(join(user, "node_modules")).filter((name) => !name.startsWith("."))).toEqual([
    "acp-edge",
  ]);
  expect(existsSync(join(user, "node_modules/.bin/acp-edge"))).toBe(true);
  return join(user, "node_modules/acp-edge");
}

/** The machine's own Node, which is not the first one on the PATH of npm scripts. */
function machinesNode(): string {
  const directories = (process.env.PATH ?? "").split(delimiter);
  const elsewhere = directories.filter(
    (entry) => !entry.includes("node_modules") && !entry.includes("node-gyp"),
  );
  return elsewhere.map((entry) => join(entry, "node")).find((path) => existsSync(path)) ?? process.execPath;
}

test("the package is small, and brings neither tools nor dependencies", () => {
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as object;
  for (const key of ["dependencies", "devDependencies", "optionalDependencies", "scripts", "private"])
    expect(manifest).not.toHaveProperty(key);
  const files = readdirSync(installed, { recursive: true, encoding: "utf8" });
  const bytes = files.reduce((sum, file) => sum + statSync(join(installed, file)).size, 0);
  expect(bytes).toBeLessThan(2_000_000);
  const code = files.filter((file) => file.endsWith(".js"));
  for (const file of code)
    expect(readFileSync(join(installed, file), "utf8")).not.toMatch(/miniflare|from ?"wrangler/);
});

test("the package runs --version, --help, doctor and run", async () => {
  const env = environmentOf(gateway);
  const { version } = JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8")) as { version: string };
  expect(await acpEdge(["--version"], env, { program })).toEqual({
    code: 0,
    stdout: `${version}\n`,
    stderr: "",
  });
  expect((await acpEdge(["--help"], env, { program })).stdout).toContain("Exit codes:");
  expect(await acpEdge(["doctor", "--turn"], env, { program })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("no check failed"),
  });
  expect(await acpEdge(["run", "/stream 3 20"], env, { program })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("000002"),
  });
});

test("the package starts a host that runs the demo agent", async () => {
  const env = environmentOf(gateway);
  const args = ["--gateway", gateway.url, "--workspace", "local", "--root", gateway.root, "--name", "packed"];
  // This host has an agent of its own, so that the next session is placed on it.
  const demo = `'${program[0]}' '${join(installed, "dist/demo-agent/main.js")}'`;
  const host = startAcpEdge(
    ["host", ...args, "--agent", demo],
    { ...env, ACP_EDGE_HOST_TOKEN: gateway.hostToken },
    program,
  );
  await host.prints("connected");
  await eventually(async () => {
    const { stdout } = await acpEdge(["agents", "--json"], env, { program });
    const { agents } = JSON.parse(stdout) as { agents: { id: string; ready: boolean }[] };
    return agents.some(({ id, ready }) => id === "custom" && ready);
  });
  const { code, stdout } = await acpEdge(["run", "--agent", "custom", "/cwd"], env, { program });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(gateway.root) });
  host.child.kill("SIGTERM");
  expect((await host.ended).code).toBe(0);
});

test("the package runs in a container, configured by the environment, in a directory cloned from a repository", async () => {
  const [repository, root] = [join(directory, "repository"), join(directory, "workspace")];
  const author = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
  await run("git", ["init", "--quiet", "--initial-branch", "trunk", repository]);
  await run("git", [...author, "commit", "--quiet", "--allow-empty", "-m", "begin"], { cwd: repository });
  mkdirSync(root);
  const path = `${join(installed, "../.bin")}${delimiter}${dirname(program[0])}${delimiter}${process.env.PATH}`;
  const host = startAcpEdge(
    [],
    {
      PATH: path,
      ACP_EDGE_ROOT: root,
      ACP_EDGE_GATEWAY: gateway.url,
      ACP_EDGE_WORKSPACE: "local",
      ACP_EDGE_NAME: "container",
      ACP_EDGE_HOST_TOKEN: gateway.hostToken,
      ACP_EDGE_DRAIN: "5",
      GIT_URL: repository,
      GIT_REF: "trunk",
    },
    ["/bin/sh", join(PROJECT, "src/container/entrypoint.sh")],
  );
  await host.prints("connected");
  expect((await run("git", ["branch", "--show-current"], { cwd: root })).stdout.trim()).toBe("trunk");
  host.child.kill("SIGTERM");
  expect((await host.ended).code).toBe(0);
});

test("the package's connect speaks ACP on stdio", async () => {
  const bridge = startAcpEdge(["connect"], environmentOf(gateway), program);
  bridge.type('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n');
  await bridge.prints('"protocolVersion":1');
  bridge.child.stdin?.end();
  expect((await bridge.ended).code).toBe(0);
});
