import type { Caller } from "../protocol/caller.ts";
import type { Limits } from "../protocol/limits.ts";

/** The environment of a request in Hono: the bindings of the Worker, and the variables that the middleware sets. */
export type AppEnv = {
  Bindings: Env;
  Variables: {
    /** Set for every request, see middleware/limits.ts. */
    limits: Limits;
    /** Set once the token is verified, see middleware/authentication.ts. */
    caller: Caller;
  };
};
