import { execFile } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from "jose";
import { describe, expect, test } from "vitest";
import { acpEdge, document, emptyEnvironment } from "./command.ts";

/** Commands that need no gateway. */

describe("the help text", () => {
  test.each([["--help"], ["help"], ["sessions", "--help"], ["run", "--help"], ["host", "--help"]])(
    "%s: %s",
    async (...args) => {
      expect(await acpEdge(args, emptyEnvironment())).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/usage: acp-edge/i),
        stderr: "",
      });
    },
  );

  test("lists the exit codes", async () => {
    expect((await acpEdge(["--help"], emptyEnvironment())).stdout).toContain("130  interrupted by Ctrl-C");
  });

  test.each([
    [["nonsense"]],
    [["sessions", "nonsense"]],
    [["sessions", "show"]],
    [["sessions", "ls", "--nonsense"]],
    [["sessions", "ls", "--limit", "many"]],
    [["run", "--permissions", "perhaps", "hi"]],
    [["editor", "ed"]],
    [["config", "set", "colour", "red"]],
    [["host", "--nonsense"]],
    [["host", "--gateway", "http://127.0.0.1:1", "--workspace", "w", "--root", "."]],
    [["run"]],
  ])("%j is a mistake: exit code 2, nothing on stdout", async (args) => {
    const env = { ...emptyEnvironment(), ACP_EDGE_URL: "http://127.0.0.1:9", ACP_EDGE_TOKEN: "x" };
    expect(await acpEdge(args, env)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/\S/),
    });
  });
});

describe("acp-edge config", () => {
  test("profiles are set, shown, and switched", async () => {
    const env = emptyEnvironment();
    const config = (...args: string[]) => acpEdge(["config", ...args], env);
    expect((await config("path")).stdout).toBe(`${env.XDG_CONFIG_HOME}/acp-edge/config.json\n`);
    await config("set", "url", "wss://one.example/acp");
    await config("set", "url", "https://two.example", "--profile", "two");
    await config("set", "workspace", "w", "--profile", "two");
    expect((await config("get", "url")).stdout).toBe("https://one.example\n");
    expect((await config("use", "three")).code).toBe(5);
    expect((await config("use", "two")).code).toBe(0);
    expect(document(await config("get", "--json"))).toEqual({
      profile: "two",
      url: "https://two.example",
      workspace: "w",
      others: ["default"],
    });
    await config("set", "workspace");
    expect((await config("get", "workspace")).code).toBe(5);
  });

  test("a malformed file is named and left alone", async () => {
    const env = emptyEnvironment();
    await acpEdge(["config", "set", "url", "https://one.example"], env);
    const file = join(env.XDG_CONFIG_HOME as string, "acp-edge/config.json");
    writeFileSync(file, '{"profiles": {"default": {"uri": "x"}}}');
    const { code, stderr } = await acpEdge(["config", "set", "url", "https://two.example"], env);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(file) });
    expect(readFileSync(file, "utf8")).toContain('"uri"');
  });
});

describe("acp-edge token", () => {
  test("keys writes a private key to a file and the public key to stdout, and tokens are signed with it", async () => {
    const env = emptyEnvironment();
    const file = join(env.HOME as string, "key.json");
    const { stdout: jwks } = await acpEdge(["token", "keys", file], env);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(jwks).not.toContain('"d"');
    const args = [
      "--key",
      file,
      "--workspace",
      "a",
      "b",
      "--tenant",
      "t",
      "--subject",
      "s",
      "--lifetime",
      "1 hour",
    ];
    const { token } = document<{ token: string }>(await acpEdge(["token", "client", ...args, "--json"], env));
    const keys = createLocalJWKSet(JSON.parse(jwks) as JSONWebKeySet);
    const { payload } = await jwtVerify(token, keys, { issuer: "acp-edge", audience: "acp-edge" });
    expect(payload).toMatchObject({ sub: "s", tenant: "t", workspaces: ["a", "b"] });
    // The key is made once: a second call keeps it.
    expect((await acpEdge(["token", "keys", file], env)).stdout).toBe(jwks);
  });

  test("claims a gateway would refuse are not signed", async () => {
    const env = emptyEnvironment();
    const file = join(env.HOME as string, "key.json");
    await acpEdge(["token", "keys", file], env);
    const refused = async (...args: string[]) =>
      (await acpEdge(["token", ...args, "--key", file], env)).stderr;
    expect(await refused("host", "--workspace", "a", "b")).toContain("exactly one workspace");
    expect(await refused("host", "--workspace", "*")).toContain("exactly one workspace");
    expect(await refused("client", "--scopes", "host,session:read")).toContain("for a host and for a client");
    expect(await refused("client", "--scopes", "session:write")).toContain("there is no scope session:write");
  });

  test("a missing private key is a mistake", async () => {
    const env = emptyEnvironment();
    expect((await acpEdge(["token", "client", "--key", "/no/such"], env)).code).toBe(2);
    const file = join(env.HOME as string, "public.json");
    writeFileSync(file, '{"kty":"OKP","crv":"Ed25519","x":"itzAhG07yRiTu7O91QAg7MAXfhEWPfKYeOdyE4cTAO0"}');
    expect(await acpEdge(["token", "host", "--key", file], env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("not a private key"),
    });
  });
});

describe("acp-edge editor", () => {
  const env = () => ({ ...emptyEnvironment(), ACP_EDGE_URL: "http://127.0.0.1:9", ACP_EDGE_TOKEN: "secret" });

  test.each([
    ["zed", (settings: unknown) => (settings as { agent_servers: object }).agent_servers],
    ["jetbrains", (settings: unknown) => (settings as { agent_servers: object }).agent_servers],
    ["vscode", (settings: unknown) => (settings as { "acp.agents": object })["acp.agents"]],
  ])("%s gets settings that start this command", async (editor, servers) => {
    const { stdout } = await acpEdge(["editor", editor, "--agent", "demo", "--name", "Remote"], env());
    expect(servers(JSON.parse(stdout))).toMatchObject({
      Remote: {
        command: process.execPath,
        args: [expect.any(String), "connect", "--url", "http://127.0.0.1:9", "--agent", "demo"],
        env: { ACP_EDGE_TOKEN: "secret" },
      },
    });
  });

  test("neovim gets Lua", async () => {
    const { stdout } = await acpEdge(["editor", "neovim"], env());
    expect(stdout).toContain('require("codecompanion").setup');
    expect(stdout).toContain("acp_providers");
  });

  test("settings of the configuration file are not repeated", async () => {
    const home = emptyEnvironment();
    await acpEdge(["config", "set", "url", "https://one.example"], home);
    await acpEdge(["config", "set", "token", "secret"], home);
    const { stdout } = await acpEdge(["editor", "zed"], home);
    expect(stdout).not.toMatch(/secret|one\.example/);
  });
});

describe("acp-edge completion", () => {
  test("bash offers commands, options and values", async () => {
    const env = emptyEnvironment();
    const { stdout: script } = await acpEdge(["completion", "bash"], env);
    const complete = async (...words: string[]) => {
      const list = words.map((word) => `'${word}'`).join(" ");
      const call = `COMP_WORDS=(acp-edge ${list}); COMP_CWORD=${words.length}; _acp_edge; echo "\${COMPREPLY[*]}"`;
      const { stdout } = await promisify(execFile)("bash", ["-ec", `${script}\n${call}`]);
      return stdout.trim().split(" ");
    };
    expect(await complete("per")).toEqual(["permissions"]);
    expect(await complete("sessions", "")).toEqual(
      expect.arrayContaining(["ls", "show", "tail", "watch", "export", "import", "close", "rm"]),
    );
    expect(await complete("sessions", "export", "x", "--fo")).toEqual(["--format"]);
    expect(await complete("editor", "z")).toEqual(["zed"]);
    expect(await complete("host", "--ga")).toEqual(["--gateway"]);
  });

  test.each(["zsh", "fish"])("%s gets a script of its own", async (shell) => {
    expect((await acpEdge(["completion", shell], emptyEnvironment())).stdout).toContain("acp-edge");
  });
});
