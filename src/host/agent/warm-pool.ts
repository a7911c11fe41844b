import type { Timing } from "../../node/timing.ts";
import type { AgentRun } from "./agent-run.ts";
import type { OfferedAgent } from "./offered-agents.ts";
import { WarmProcess } from "./warm-process.ts";

/** Number of agents besides the default agent that have a warm process: the most recently requested. */
const OTHERS_MAX = 2;

/** Warm processes: one for the default agent permanently, and one for each recently requested agent for a while. */
export class WarmPool {
  readonly #start: (agent: OfferedAgent) => AgentRun | null;
  readonly #timing: Timing;
  /** The least recently used entry comes first. */
  readonly #entries = new Map<OfferedAgent, { warm: WarmProcess; expiry: NodeJS.Timeout | undefined }>();

  /** `start` returns null if the host has no room for a warm process. */
  constructor(start: (agent: OfferedAgent) => AgentRun | null, timing: Timing) {
    this.#start = start;
    this.#timing = timing;
  }

  /** Keeps a process of this agent warm for the next session. */
  warm(agent: OfferedAgent): void {
    const known = this.#entries.get(agent);
    clearTimeout(known?.expiry);
    known?.warm.refill();
    this.#entries.delete(agent);
    const warm = known?.warm ?? new WarmProcess(() => this.#start(agent), this.#timing);
    const expiry = agent.default ? undefined : setTimeout(() => this.drop(agent), this.#timing.warmIdleMs);
    this.#entries.set(agent, { warm, expiry });
    const others = [...this.#entries.keys()].filter((other) => !other.default);
    for (const oldest of others.slice(0, -OTHERS_MAX)) this.drop(oldest);
  }

  take(agent: OfferedAgent): AgentRun | null {
    return this.#entries.get(agent)?.warm.take() ?? null;
  }

  /** Tries again to keep a process of the agent warm, because the agent has just started elsewhere. */
  refill(agent: OfferedAgent): void {
    this.#entries.get(agent)?.warm.refill();
  }

  /** Tries again for all agents, because the host has room again. */
  refillAll(): void {
    for (const { warm } of this.#entries.values()) warm.refill();
  }

  /** Ends all warm processes to make room for a session; `refillAll` brings them back. */
  evict(): void {
    for (const { warm } of this.#entries.values()) warm.evict();
  }

  drop(agent: OfferedAgent): void {
    const known = this.#entries.get(agent);
    clearTimeout(known?.expiry);
    known?.warm.close();
    this.#entries.delete(agent);
  }

  close(): void {
    for (const agent of [...this.#entries.keys()]) this.drop(agent);
  }
}
