import { mustReadFrame } from "../protocol/frame.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Login } from "../protocol/rpc.ts";

/**
 * The logins of the client that agents have accepted, the last one of each agent. Each session has a process of its own,
 * and an agent may keep its login in memory: a process that starts later is given the login. The login is in the
 * connection's storage, as long as the connection lasts, and in no log.
 */
export class Logins {
  readonly #storage: DurableObjectStorage;
  readonly #limits: Pick<Limits, "rowChars">;

  constructor(storage: DurableObjectStorage, limits: Pick<Limits, "rowChars">) {
    this.#storage = storage;
    this.#limits = limits;
  }

  /** Takes a login that an agent has accepted, or forgets the agent's login with a logout. */
  take({ agent, raw }: Login): void {
    const { kv } = this.#storage;
    if (mustReadFrame(raw).method === "authenticate" && raw.length <= this.#limits.rowChars)
      kv.put(keyOf(agent), raw);
    else kv.delete(keyOf(agent));
  }

  of(agent: string | null): Login | undefined {
    const raw = agent === null ? undefined : this.#storage.kv.get<string>(keyOf(agent));
    return agent === null || raw === undefined ? undefined : { agent, raw };
  }
}

function keyOf(agent: string): string {
  return `login/${agent}`;
}
