import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseStartOptions, UsageError } from "../../../../src/cli/local/start-options.ts";
import { temporaryDirectory } from "../../../fixtures/temporary-directory.ts";

describe("the options of npm start", () => {
  test("default to the current directory, the demo agent and the default port", () => {
    const cwd = temporaryDirectory();
    expect(parseStartOptions([], cwd)).toEqual({
      root: cwd,
      state: join(cwd, ".acp-edge"),
      defaultAgent: undefined,
      host: [],
      json: false,
      watch: false,
      onDemand: false,
      help: false,
    });
  });

  test("are passed on to the host if they concern agents", () => {
    const args = ["--agents", "gemini,demo", "--npx", "--pass-env", "A,B"];
    expect(parseStartOptions(args, temporaryDirectory())).toMatchObject({
      host: ["--agents=gemini,demo", "--npx", "--pass-env=A,B"],
      defaultAgent: "gemini",
    });
    expect(parseStartOptions([...args, "--default", "demo"], temporaryDirectory()).defaultAgent).toBe("demo");
  });

  test("resolve paths from the current directory", () => {
    const cwd = temporaryDirectory();
    expect(parseStartOptions(["--root", "..", "--state", "s", "--port", "0"], cwd)).toMatchObject({
      root: join(cwd, ".."),
      state: join(cwd, "s"),
      port: 0,
    });
  });

  test.each([
    [["--port", "65536"], "--port: 65536 is not a port number"],
    [["--port", "x"], "--port: x is not a port number"],
    [["--agent", " "], "--agent: the command is empty"],
    [["--root", "missing"], "is not a directory"],
    [["--nonsense"], "--nonsense"],
    [["word"], "word"],
  ])("%j are a mistake of the user", (args, message) => {
    const parse = () => parseStartOptions(args, temporaryDirectory());
    expect(parse).toThrow(UsageError);
    expect(parse).toThrow(message);
  });
});
