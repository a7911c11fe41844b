import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Machine } from "../../../../src/host/agent/installation.ts";
import { offeredAgents } from "../../../../src/host/agent/offered-agents.ts";
import { temporaryDirectory } from "../../../fixtures/temporary-directory.ts";
import { catalogueFile, REGISTERED } from "./registry-entry.ts";

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

describe("the options of a host", () => {
  const ids = (options: Parameters<typeof offeredAgents>[0]) =>
    offeredAgents(options, BARE).map(({ id, default: isDefault }) => (isDefault ? `*${id}` : id));

  test("offer all agents by default, with the demo agent as the default agent", () => {
    expect(ids({})).toContain("*demo");
  });
  test("can restrict the agents, with the first as the default agent", () => {
    expect(ids({ agents: ["gemini", "demo"] })).toEqual(["*gemini", "demo"]);
    expect(ids({ agents: ["gemini", "demo"], defaultAgent: "demo" })).toEqual(["gemini", "*demo"]);
  });
  test("can add a custom command", () => {
    expect(ids({ agent: ["x", "y"], agents: ["demo"] })).toEqual(["*custom", "demo"]);
  });
  test("cannot name an unknown agent", () => {
    expect(() => ids({ agents: ["nobody"] })).toThrow(
      "there is no agent nobody; the catalogue has claude-acp,",
    );
    expect(() => ids({ agents: ["demo"], defaultAgent: "gemini" })).toThrow("not among demo");
  });
});

describe("the command that starts an agent", () => {
  test("is named after the agent's package", () => {
    const on = machine("some-agent");
    expect(offer(REGISTERED, on)).toMatchObject({
      command: [join(on.path[0]!, "some-agent"), "--acp"],
      env: { MODE: "acp" },
    });
  });

  test("is the command that the agent's installed package declares", () => {
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

  test("uses npx only if downloads are allowed", () => {
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

  test("uses uvx only if downloads are allowed", () => {
    const entry = { ...REGISTERED, distribution: { uvx: { package: "py-agent==1.0", args: ["serve"] } } };
    const on = machine("uvx");
    expect(offer(entry, on).missing).toBe("not installed: uv tool install py-agent");
    expect(offer(entry, { ...on, download: true }).command.slice(1)).toEqual(["py-agent==1.0", "serve"]);
    expect(offer(entry, machine("py-agent")).command.slice(1)).toEqual(["serve"]);
  });
});
