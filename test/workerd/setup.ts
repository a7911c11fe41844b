import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach } from "vitest";
import { resetLimits } from "./limits.ts";

await applyD1Migrations(env.INDEX, env.TEST_MIGRATIONS);

afterEach(resetLimits);
