import { describe, expect, test } from "vitest";
import { planHandover } from "../../../src/node/token-handover.ts";

describe("a host that was given a token", () => {
  const handed = { ACP_EDGE_HOST_TOKEN: "t", ACP_EDGE_HOST_TOKEN_FD: "9" };

  test.each([
    ["in its environment", ["main.ts", "--name", "n"], { ACP_EDGE_HOST_TOKEN: "t", HOME: "/h" }],
    ["as an option", ["main.ts", "--token", "t", "--name", "n"], { HOME: "/h" }],
    ["as one word", ["main.ts", "--token=t", "--name", "n"], { HOME: "/h", ACP_EDGE_HOST_TOKEN: "other" }],
  ])("%s hands it over by a descriptor", (_, args, env) => {
    expect(planHandover(args, env)).toEqual({
      args: ["main.ts", "--name", "n"],
      env: { HOME: "/h", ...handed },
    });
  });

  test.each([[["main.ts", "--token-file", "f"]], [["main.ts", "--token-fd=5"]]])(
    "in its environment in vain leaves it behind: %j",
    (args) => {
      expect(planHandover(args, { ACP_EDGE_HOST_TOKEN: "t", HOME: "/h" })).toEqual({
        args,
        env: { HOME: "/h" },
      });
    },
  );

  test("by a file or a descriptor has nothing to hand over", () => {
    expect(planHandover(["main.ts"], { ACP_EDGE_HOST_TOKEN_FD: "9" })).toBeUndefined();
    expect(planHandover(["main.ts", "--token-file", "f"], {})).toBeUndefined();
  });
});
