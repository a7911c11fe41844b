import type { Timing } from "../../node/timing.ts";
import type { AgentRun } from "./agent-run.ts";
import type { OfferedAgent } from "./offered-agents.ts";
import { WarmProcess } from "./warm-process.ts";

/** Agents besides the default one that have a spare: those asked for last. */
const OTHERS_MAX = 2;

/** WarmProcess processes: one for the default agent all the time, and for a while one for each that was asked for. */
export class WarmPool {
  readonly #start: (agent: OfferedAgent) => AgentRun | null;
  readonly #timing: Timing;
  /** The least recently used first. */
  readonly #spares = new Map<OfferedAgent, { spare: WarmProcess; idle: NodeJS.Timeout | undefined }>();

  constructor(start: (agent: OfferedAgent) => AgentRun | null, timing: Timing) {
    this.#start = start;
    this.#timing = timing;
  }

  /** Sees to it that the next session with this agent finds one. */
  warm(agent: OfferedAgent): void {
    const known = this.#spares.get(agent);
    clearTimeout(known?.idle);
    known?.spare.encourage();
    this.#spares.delete(agent);
    const spare = known?.spare ?? new WarmProcess(() => this.#start(agent), this.#timing);
    const idle = agent.default ? undefined : setTimeout(() => this.drop(agent), this.#timing.warmIdleMs);
    this.#spares.set(agent, { spare, idle });
    const others = [...this.#spares.keys()].filter((one) => !one.default);
    for (const oldest of others.slice(0, -OTHERS_MAX)) this.drop(oldest);
  }

  take(agent: OfferedAgent): AgentRun | null {
    return this.#spares.get(agent)?.spare.take() ?? null;
  }

  /** The agent has been seen to start. */
  encourage(agent: OfferedAgent): void {
    this.#spares.get(agent)?.spare.encourage();
  }

  /** There is no room for spares. */
  giveWay(): void {
    for (const { spare } of this.#spares.values()) spare.giveWay();
  }

  /** There is room for spares again. */
  encourageAll(): void {
    for (const { spare } of this.#spares.values()) spare.encourage();
  }

  drop(agent: OfferedAgent): void {
    const known = this.#spares.get(agent);
    clearTimeout(known?.idle);
    known?.spare.close();
    this.#spares.delete(agent);
  }

  close(): void {
    for (const agent of [...this.#spares.keys()]) this.drop(agent);
  }
}
