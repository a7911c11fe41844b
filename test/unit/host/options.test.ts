import { describe, expect, test } from "vitest";
import { readCommandLine } from "../../../src/host/options.ts";

describe("the command line", () => {
  const args = ["--gateway", "http://127.0.0.1:1", "--workspace", "w", "--root", ".", "--name", "n"];

  test("takes the token from the environment", () => {
    const options = readCommandLine(args, { ACP_EDGE_HOST_TOKEN: "t" });
    expect(options).toMatchObject({ root: process.cwd(), agent: undefined });
    expect(options.token()).toBe("t");
  });

  test("can be given by environment variables, which options override", () => {
    const env = {
      ACP_EDGE_GATEWAY: "https://acp.example.com",
      ACP_EDGE_WORKSPACE: "api",
      ACP_EDGE_ROOT: ".",
      ACP_EDGE_NAME: "container",
      ACP_EDGE_HOST_TOKEN: "t",
      ACP_EDGE_DRAIN: "840",
      ACP_EDGE_CAPACITY: "4",
      ACP_EDGE_AGENT_COMMAND: "agent --acp",
    };
    expect(readCommandLine([], env)).toMatchObject({
      gateway: "https://acp.example.com",
      workspace: "api",
      root: process.cwd(),
      name: "container",
      drainMs: 840_000,
      capacity: 4,
      agent: ["agent", "--acp"],
    });
    expect(readCommandLine([...args, "--drain", "0"], env)).toMatchObject({
      gateway: "http://127.0.0.1:1",
      workspace: "w",
      name: "n",
      drainMs: 0,
    });
    expect(() => readCommandLine([], { ...env, ACP_EDGE_DRAIN: "soon" })).toThrow("--drain");
  });

  test.each([
    ["the host's own", { ACP_EDGE_AGENT_COMMAND: "mine", ACP_EDGE_AGENT: "not mine" }, ["mine"]],
    ["the former one, if it is a command line", { ACP_EDGE_AGENT: "mine --acp" }, ["mine", "--acp"]],
    ["no variable, if the former one is the id of an agent", { ACP_EDGE_AGENT: "claude-code" }, undefined],
  ])("takes the command of an agent from %s", (_, env, agent) => {
    expect(readCommandLine(args, { ...env, ACP_EDGE_HOST_TOKEN: "t" }).agent).toEqual(agent);
  });

  test("names a missing or wrong option", () => {
    expect(() => readCommandLine(args, {})).toThrow("ACP_EDGE_HOST_TOKEN is missing");
    expect(() => readCommandLine(args.slice(2), { ACP_EDGE_HOST_TOKEN: "t" })).toThrow(
      "--gateway is missing",
    );
    expect(() => readCommandLine([...args, "--gateway", "ftp://x"], { ACP_EDGE_HOST_TOKEN: "t" })).toThrow(
      "http",
    );
    expect(() => readCommandLine([...args, "--root", "/no/such"], { ACP_EDGE_HOST_TOKEN: "t" })).toThrow(
      "ENOENT",
    );
  });
});
