/** The rows of the ACP compatibility kit with the demo agent. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { OF_THE_AGENT, PENDING } from "./known-failures.ts";
import { ROWS, tckSuite } from "./suite.ts";

const DEMO = fileURLToPath(new URL("../../../src/demo-agent/main.ts", import.meta.url));

test("the kit's 56 rows are here, each once, and known failures name only these", () => {
  const ids = new Set<string>(ROWS.map(({ id }) => id));
  expect(ROWS).toHaveLength(56);
  expect(ids.size).toBe(56);
  expect([...PENDING, ...OF_THE_AGENT].filter(({ id }) => !ids.has(id))).toEqual([]);
});

tckSuite(
  {
    id: "demo",
    prompts: {
      hello: "hello",
      hold: "/wait",
      read: "/read README.md",
      run: "/terminal ls",
      ask: "/echo I ask.\n/elicit",
    },
  },
  { command: ["node", DEMO], env: (home) => ({ DEMO_AGENT_STATE: home }) },
);
