import { env } from "cloudflare:workers";
import { overrideLimits } from "./protocol/limits.ts";

/** Imported before all else, because some modules take their limits when they are loaded. */
overrideLimits(env.LIMITS);
