import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect } from "vitest";
import { explainStatements, statementFaults } from "./explained-statements.ts";
import { resetLimits } from "./limits.ts";

await applyD1Migrations(env.INDEX, env.TEST_MIGRATIONS);
await explainStatements();

afterEach(resetLimits);
afterEach(async () => {
  expect(await statementFaults(), "statements whose plans read more with every row").toEqual([]);
});
