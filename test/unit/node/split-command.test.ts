import { describe, expect, test } from "vitest";
import { splitCommand } from "../../../src/node/split-command.ts";

describe("a command", () => {
  test.each([
    ["claude-agent-acp", ["claude-agent-acp"]],
    ["  npx -y  pkg@1 ", ["npx", "-y", "pkg@1"]],
    [`node "a b.js" 'c "d"' e\\ f`, ["node", "a b.js", 'c "d"', "e f"]],
    [`sh -c 'echo "\\$HOME"' ""`, ["sh", "-c", 'echo "\\$HOME"', ""]],
    [`"a \\"b\\" \\n" x"y"z`, ['a "b" \\n', "xyz"]],
  ])("%s is split as by a shell", (text, words) => {
    expect(splitCommand(text)).toEqual(words);
  });

  test("must be complete", () => {
    expect(() => splitCommand("echo 'a")).toThrow("closing '");
    expect(() => splitCommand("  ")).toThrow("empty");
  });
});
