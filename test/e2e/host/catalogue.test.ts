import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { AgentEnvironment } from "../../../src/host/agent/agent-environment.ts";
import type { Machine } from "../../../src/host/agent/installation.ts";
import { offeredAgents } from "../../../src/host/agent/offered-agents.ts";
import { readCatalogue } from "../../../src/host/catalogue.ts";
import { temporaryDirectory } from "./harness.ts";

/** An entry as the public registry has it. */
const REGISTERED = {
  id: "some-agent",
  name: "Some Agent",
  version: "1.2.3",
  description: "An agent",
  repository: "https://example.com/some-agent",
  website: "https://example.com",
  authors: ["Somebody"],
  license: "MIT",
  license_url: "https://example.com/license",
  icon: "./icon.svg",
  distribution: {
    npx: { package: "@scope/some-agent@1.2.3", args: ["--acp"], env: { MODE: "acp" } },
    binary: {
      "linux-x86_64": {
        archive: "https://example.com/a.tar.gz",
        sha256: "0".repeat(64),
        cmd: "./some-binary",
      },
      "linux-aarch64": { archive: "https://example.com/b.tar.gz", cmd: "./some-binary" },
    },
  },
  preview: { version: "2.0.0", distribution: { npx: { package: "@scope/some-agent@2.0.0" } } },
};

function catalogueFile(content: unknown): string {
  const file = join(temporaryDirectory(), "catalogue.json");
  writeFileSync(file, JSON.stringify(content));
  return file;
}

/** A machine on which only these commands are installed. */
function machine(...commands: string[]): Machine {
  const bin = temporaryDirectory();
  for (const command of commands) {
    writeFileSync(join(bin, command), "#!/bin/sh\n");
    chmodSync(join(bin, command), 0o755);
  }
  return { path: [bin], modules: [], download: false };
}

const BARE: Machine = { path: [], modules: [], download: false };
const offer = (entry: unknown, on: Machine) =>
  offeredAgents({ agents: ["some-agent"], catalogue: catalogueFile(entry) }, on)[0]!;

describe("the catalogue", () => {
  test("has the agents people use, each with a way to install it", () => {
    const ids = readCatalogue().map(({ id }) => id);
    expect(ids).toEqual([
      "claude-acp",
      "codex-acp",
      "opencode",
      "gemini",
      "qwen-code",
      "github-copilot-cli",
      "pi-acp",
      "demo",
    ]);
    for (const agent of offeredAgents({}, BARE)) {
      if (agent.id === "demo") expect(agent.command).toHaveLength(2);
      else expect(agent.missing).toMatch(/^not installed: npm install -g \S+, or let the host download it/);
    }
  });

  test.each([
    ["one entry", REGISTERED],
    ["a list", [REGISTERED]],
    ["a whole registry", { version: "1.0.0", agents: [REGISTERED], extensions: [] }],
  ])("takes what the public registry has as it is: %s", (_, content) => {
    expect(readCatalogue(catalogueFile(content)).at(-1)).toMatchObject({
      id: "some-agent",
      version: "1.2.3",
    });
  });

  test("is told differently by a file, which says only what differs", () => {
    const file = catalogueFile({ id: "gemini", name: "Gemini", command: ["./wrapped", "--acp"] });
    const gemini = readCatalogue(file).find(({ id }) => id === "gemini");
    expect(gemini).toMatchObject({
      name: "Gemini",
      command: [join(file, "../wrapped"), "--acp"],
      requires: [expect.arrayContaining(["GEMINI_API_KEY"])],
    });
  });

  test.each([
    [{ id: "x", name: "X" }, "neither a distribution nor a command"],
    [{ id: "X Y", name: "X", command: ["x"] }, "lower case"],
    [{ id: "x", name: "X", command: ["x"], requires: ["NOT A NAME"] }, "requires"],
    ["nonsense", "expected object"],
  ])("says what is wrong with a file: %j", (content, message) => {
    expect(() => readCatalogue(catalogueFile(content))).toThrow(message);
  });

  test("says so if there is no such file", () => {
    expect(() => readCatalogue("/no/such/file")).toThrow("cannot be read");
  });
});

describe("the options", () => {
  const ids = (options: Parameters<typeof offeredAgents>[0]) =>
    offeredAgents(options, BARE).map(({ id, default: isDefault }) => (isDefault ? `*${id}` : id));

  test("allow all agents, the demo agent being the default", () => {
    expect(ids({})).toContain("*demo");
  });
  test("allow some, the first being the default", () => {
    expect(ids({ agents: ["gemini", "demo"] })).toEqual(["*gemini", "demo"]);
    expect(ids({ agents: ["gemini", "demo"], defaultAgent: "demo" })).toEqual(["gemini", "*demo"]);
  });
  test("may bring a command of their own", () => {
    expect(ids({ agent: ["x", "y"], agents: ["demo"] })).toEqual(["*custom", "demo"]);
  });
  test("cannot name what is not there", () => {
    expect(() => ids({ agents: ["nobody"] })).toThrow(
      "there is no agent nobody; the catalogue has claude-acp,",
    );
    expect(() => ids({ agents: ["demo"], defaultAgent: "gemini" })).toThrow("not among demo");
  });
});

describe("an agent is started", () => {
  test("by the command its package is known to have", () => {
    const on = machine("some-agent");
    expect(offer(REGISTERED, on)).toMatchObject({
      command: [join(on.path[0]!, "some-agent"), "--acp"],
      env: { MODE: "acp" },
    });
  });

  test("by the command its installed package says it has", () => {
    const on = machine("other-name");
    const modules = temporaryDirectory();
    mkdirSync(join(modules, "@scope/some-agent"), { recursive: true });
    writeFileSync(join(modules, "@scope/some-agent/package.json"), '{"bin":{"other-name":"./x.js"}}');
    expect(offer(REGISTERED, { ...on, modules: [modules] }).command).toEqual([
      join(on.path[0]!, "other-name"),
      "--acp",
    ]);
  });

  test.skipIf(process.platform !== "linux")("by a binary on the PATH", () => {
    const on = machine("some-binary");
    expect(offer(REGISTERED, on).command).toEqual([join(on.path[0]!, "some-binary")]);
  });

  test("by npx only when that is allowed", () => {
    const on = machine("npx");
    const entry = { ...REGISTERED, distribution: { npx: REGISTERED.distribution.npx } };
    expect(offer(entry, on).missing).toBe(
      "not installed: npm install -g @scope/some-agent, or let the host download it with --npx",
    );
    const npx = join(on.path[0]!, "npx");
    const allowed = { ...on, download: true };
    expect(offer(entry, allowed).command).toEqual([npx, "--yes", "@scope/some-agent@1.2.3", "--acp"]);
    const named = { ...entry, distribution: { npx: { ...entry.distribution.npx, cmd: "cmd" } } };
    expect(offer(named, allowed).command).toEqual([
      npx,
      "--yes",
      "--package",
      "@scope/some-agent@1.2.3",
      "--",
      "cmd",
      "--acp",
    ]);
  });

  test("by uvx likewise", () => {
    const entry = { ...REGISTERED, distribution: { uvx: { package: "py-agent==1.0", args: ["serve"] } } };
    const on = machine("uvx");
    expect(offer(entry, on).missing).toBe("not installed: uv tool install py-agent");
    expect(offer(entry, { ...on, download: true }).command.slice(1)).toEqual(["py-agent==1.0", "serve"]);
    expect(offer(entry, machine("py-agent")).command.slice(1)).toEqual(["serve"]);
  });
});

describe("an agent lacks", () => {
  const agent = { id: "a", name: "A", default: false, command: ["a"] };
  const lacks = (env: NodeJS.ProcessEnv, more: object) =>
    new AgentEnvironment(env, []).unavailableReason({ ...agent, ...more });

  test("nothing, if any one of each group is there", () => {
    const home = temporaryDirectory();
    writeFileSync(join(home, "login.json"), "{}");
    expect(lacks({}, {})).toBeUndefined();
    expect(lacks({ B: "1", C: "1" }, { requires: [["A", "B"], "C"] })).toBeUndefined();
    expect(lacks({ HOME: home }, { requires: [["A", "~/login.json"]] })).toBeUndefined();
  });

  test("its variables or its installation, said plainly", () => {
    const requires = [["A_KEY", "B_KEY", "~/.c/login"], "D"];
    expect(lacks({ A_KEY: "" }, { requires })).toBe("needs A_KEY, B_KEY or ~/.c/login; needs D");
    expect(lacks({ D: "1", A_KEY: "1" }, { requires, missing: "not installed: x" })).toBe("not installed: x");
  });
});
