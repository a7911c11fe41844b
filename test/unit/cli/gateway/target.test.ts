import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Config, configPath, writeConfig } from "../../../../src/cli/gateway/config-file.ts";
import { acpUrl, gatewayUrl, resolveTarget } from "../../../../src/cli/gateway/target.ts";

const CONFIG: Config = {
  profile: "work",
  profiles: {
    work: { url: "https://work.example", workspace: "w", agent: "a", token: "work-token" },
    home: { url: "https://home.example", tokenFile: "/no/such/file" },
  },
};

function home(config: Config = CONFIG): { XDG_CONFIG_HOME: string } {
  const directory = mkdtempSync(join(tmpdir(), "acp-edge-config-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const env = { XDG_CONFIG_HOME: directory };
  writeConfig(config, env);
  return env;
}

describe("the target of a command", () => {
  test("prefers the command line to the environment, and the environment to the profile", async () => {
    const env = home();
    const target = resolveTarget({}, env);
    expect(target).toMatchObject({ url: "https://work.example", workspace: "w", agent: "a" });
    expect(await target.token()).toBe("work-token");
    const variables = { ...env, ACP_EDGE_WORKSPACE: "from-env", ACP_EDGE_AGENT: "from-env" };
    expect(resolveTarget({ agent: "option" }, variables)).toMatchObject({
      workspace: "from-env",
      agent: "option",
    });
  });

  test("uses another profile that the environment or the command line names", () => {
    const env = home();
    expect(resolveTarget({ profile: "home" }, env).url).toBe("https://home.example");
    expect(resolveTarget({}, { ...env, ACP_EDGE_PROFILE: "home" }).url).toBe("https://home.example");
    expect(() => resolveTarget({ profile: "nowhere" }, env)).toThrow('no profile "nowhere"');
  });

  test("prefers a token of any kind to the tokens of lower layers", async () => {
    const env = home();
    expect(await resolveTarget({ tokenCommand: "echo fresh" }, env).token()).toBe("fresh");
    expect(await resolveTarget({}, { ...env, ACP_EDGE_TOKEN: "env-token" }).token()).toBe("env-token");
    const file = join(env.XDG_CONFIG_HOME, "token");
    writeFileSync(file, "in-a-file\n");
    const both = { ...env, ACP_EDGE_TOKEN: "env-token" };
    expect(await resolveTarget({ tokenFile: file }, both).token()).toBe("in-a-file");
  });

  test("does not send a profile's token to another gateway", async () => {
    const target = resolveTarget({ url: "https://evil.example" }, home());
    await expect(target.token()).rejects.toThrow("no token is configured");
    expect(await resolveTarget({ url: "wss://work.example/acp" }, home()).token()).toBe("work-token");
  });

  test("has the workspace and the agent of its address, unless the command line says otherwise", () => {
    const env = home();
    const url = "wss://work.example/acp?agent=b&workspace=x";
    expect(resolveTarget({ url }, env)).toMatchObject({ workspace: "x", agent: "b" });
    expect(resolveTarget({ url, agent: "option" }, env)).toMatchObject({ workspace: "x", agent: "option" });
    const variables = { ...env, ACP_EDGE_URL: url, ACP_EDGE_AGENT: "from-env" };
    expect(resolveTarget({}, variables)).toMatchObject({ workspace: "x", agent: "from-env" });
    expect(resolveTarget({ url: "https://work.example" }, variables)).toMatchObject({ workspace: "w" });
  });

  test("has the token of its address, which other layers and gateways do not get", async () => {
    const env = home();
    const url = "ws://127.0.0.1:8790/acp?token=in-address";
    const target = resolveTarget({ url }, { ...env, ACP_EDGE_TOKEN: "env-token" });
    expect(target.url).toBe("http://127.0.0.1:8790");
    expect(await target.token()).toBe("in-address");
    expect(await resolveTarget({ url, token: "option" }, env).token()).toBe("option");
    const elsewhere = resolveTarget({ url: "https://other.example" }, { ...env, ACP_EDGE_URL: url });
    await expect(elsewhere.token()).rejects.toThrow("no token is configured");
  });

  test("is refused where the address has anything else in its query", () => {
    const url = "wss://work.example/acp?role=observer";
    expect(() => resolveTarget({ url }, home())).toThrow("and no role");
  });

  test("runs a token command once, and again for a fresh token", async () => {
    const env = home();
    const counter = join(env.XDG_CONFIG_HOME, "count");
    const target = resolveTarget({ tokenCommand: `echo x >> ${counter}; wc -l < ${counter}` }, env);
    expect(await target.token()).toBe("1");
    expect(await target.token()).toBe("1");
    expect(await target.token({ fresh: true })).toBe("2");
  });

  test("reports a missing configuration and a broken file", () => {
    expect(() => resolveTarget({}, home({ profile: "default", profiles: {} }))).toThrow(
      "no gateway is configured",
    );
    const env = home();
    writeFileSync(configPath(env), "{");
    expect(() => resolveTarget({}, env)).toThrow("is not valid JSON");
  });
});

test.each([
  ["https://x.example", "https://x.example"],
  ["wss://x.example/acp", "https://x.example"],
  ["ws://127.0.0.1:8790/acp?token=t", "http://127.0.0.1:8790"],
  ["https://x.example/behind/a/proxy/", "https://x.example/behind/a/proxy"],
])("the address %s is that of the gateway %s", (text, url) => {
  expect(gatewayUrl(text)).toBe(url);
});

test("the ACP address names the workspace and the agent", () => {
  expect(acpUrl({ url: "https://x.example", workspace: "a b", agent: "c" })).toBe(
    "wss://x.example/acp?workspace=a+b&agent=c",
  );
});
