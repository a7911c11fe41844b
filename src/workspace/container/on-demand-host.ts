import type { Deadlines } from "../../durable/deadlines.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Identity, Store } from "../store.ts";
import { hostEnvironment } from "./host-environment.ts";
import { mintHostToken } from "./host-token.ts";
import { connects, describe, ends, type Life, NEVER_STARTED, retryAt, starts, stops } from "./lifecycle.ts";
import { CONTAINER_HOST, cannotStart } from "./starter.ts";

type Clock = Pick<Deadlines<"container" | "container-token">, "set" | "clear">;

/** What it needs to know of the workspace, and tells it. */
export type Surroundings = {
  /** When the sessions on it last had something to do; null while one has. */
  lastUse(): Promise<number | null>;
  /** Whether it is connected, or has not been away for long. */
  isExpected(): boolean;
  /** A life of it has ended. */
  ended(life: number, reason: string): Promise<void>;
  /** It is told to end: nothing more is to be placed on it. */
  leaves(): void;
};

/**
 * The host that the workspace starts when sessions need one and ends when they do not. Its state is a row and its
 * clock the object's alarm, so that a start is never lost, repeated or hurried by whatever happens to this object.
 */
export class OnDemandHost {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #surroundings: Surroundings;

  constructor(ctx: DurableObjectState, env: Env, store: Store, clock: Clock, surroundings: Surroundings) {
    this.#ctx = ctx;
    this.#env = env;
    this.#store = store;
    this.#clock = clock;
    this.#surroundings = surroundings;
  }

  get life(): Life {
    return this.#store.get<Life>(ROW) ?? NEVER_STARTED;
  }

  /** Whether the workspace is to have one at all. */
  get isConfigured(): boolean {
    return this.#store.settings().container !== null;
  }

  /** Whether it is worth waiting for. */
  get isComing(): boolean {
    const { life } = this;
    return this.#isPossible && (life.state !== "asleep" || retryAt(life) <= Date.now());
  }

  get #isPossible(): boolean {
    return this.isConfigured && cannotStart(this.#env) === undefined;
  }

  describe(): string {
    const obstacle = cannotStart(this.#env);
    return obstacle === undefined ? describe(this.life) : `a container. ${obstacle}`;
  }

  /** Somebody needs it. */
  need(): void {
    const { life } = this;
    if (!this.#isPossible || life.state !== "asleep") return;
    const at = retryAt(life);
    if (at > Date.now()) return this.#clock.set("container", at);
    const next = starts(life, Date.now());
    this.#become(next, LIMITS.containerStartMs);
    this.#ctx.waitUntil(this.#wake(next.number));
  }

  /** A host has said hello. */
  connected(name: string): void {
    const { life } = this;
    // One that could not be started, as far as we heard, may have been after all.
    const isExpected = life.state === "starting" || life.state === "asleep";
    if (name !== CONTAINER_HOST || !this.isConfigured || !isExpected) return;
    this.#become(connects(life, Date.now()), this.#sleepAfterMs);
    this.#clock.set("container-token", Date.now() + LIMITS.containerTokenMs / 2);
  }

  /** A session has let go of it. */
  used(): void {
    this.#store.set(USED, Date.now());
  }

  /** False: that was another life. */
  ended(number: number, reason: string): boolean {
    const { life } = this;
    if (life.number !== number || life.state === "asleep") return false;
    this.#clock.clear("container");
    this.#clock.clear("container-token");
    this.#save(ends(life, Date.now(), reason));
    return true;
  }

  isWanted(number: number): boolean {
    const { life } = this;
    return life.number === number && (life.state === "up" || life.state === "starting");
  }

  /** A setting has changed: what it means is seen at once. */
  reconsider(): void {
    const { state } = this.life;
    if (state === "up" || state === "starting") this.#clock.set("container", Date.now());
  }

  /** The deadline of whatever state it is in. */
  async due(): Promise<void> {
    const { life } = this;
    switch (life.state) {
      case "asleep":
        return;
      case "starting": {
        const left = life.since + LIMITS.containerStartMs - Date.now();
        if (left > 0 && this.isConfigured) return this.#clock.set("container", Date.now() + left);
        return this.#stop(life, `its host has not dialled in within ${LIMITS.containerStartMs} ms`);
      }
      case "up":
        return this.#checkUse(life);
      case "stopping":
        return this.#end(life.number, true);
    }
  }

  async #checkUse(life: Life): Promise<void> {
    if (!this.#surroundings.isExpected()) return this.#stop(life, "its host was not heard of any more");
    // Whatever becomes of asking, it is looked at again.
    this.#clock.set("container", Date.now() + this.#sleepAfterMs);
    const used = await this.#surroundings.lastUse();
    if (!this.isWanted(life.number)) return;
    const now = Date.now();
    const last = Math.max(used ?? now, this.#store.get<number>(USED) ?? 0, life.since);
    const until = last + this.#sleepAfterMs;
    if (until > now && this.isConfigured) return this.#clock.set("container", until);
    await this.#stop(life);
  }

  /** A token for the host to go on with. */
  async token(): Promise<string | undefined> {
    const identity = this.#store.identity();
    if (!identity || this.life.state !== "up") return undefined;
    this.#clock.set("container-token", Date.now() + LIMITS.containerTokenMs / 2);
    return mintHostToken(this.#env, identity);
  }

  async #wake(number: number): Promise<void> {
    const identity = this.#store.identity();
    const { container } = this.#store.settings();
    if (!identity || !container) return;
    try {
      const token = await mintHostToken(this.#env, identity);
      const env = hostEnvironment(this.#env.PUBLIC_URL ?? "", identity.workspace, token, container);
      await this.#starter(identity).wake({ ...identity, life: number, env });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      console.error("container not started", { ...identity, reason });
      await this.#surroundings.ended(number, reason);
    }
  }

  async #stop(life: Life, failure?: string): Promise<void> {
    this.#become(stops(life, Date.now(), failure), LIMITS.containerDrainMs + LIMITS.containerStopMs);
    if (failure === undefined) this.#surroundings.leaves();
    await this.#end(life.number, failure !== undefined);
  }

  /** What does not end now is asked again. */
  async #end(number: number, now: boolean): Promise<void> {
    const identity = this.#store.identity();
    if (!identity) return;
    if (now) this.#clock.set("container", Date.now() + LIMITS.containerStopMs);
    try {
      if (!(await this.#starter(identity).sleep(now))) await this.#surroundings.ended(number, "it is gone");
    } catch (error) {
      console.error("container not stopped", { ...identity, error: String(error) });
    }
  }

  #starter({ tenant, workspace }: Identity) {
    const containers = this.#env.AGENT_CONTAINER;
    if (!containers) throw new Error(cannotStart(this.#env));
    return containers.getByName(`${tenant}/${workspace}`);
  }

  get #sleepAfterMs(): number {
    return this.#store.settings().container?.sleepAfterMs ?? LIMITS.containerSleepMs;
  }

  #become(life: Life, forMs: number): void {
    this.#save(life);
    this.#clock.set("container", Date.now() + forMs);
  }

  #save(life: Life): void {
    this.#store.set(ROW, life);
  }
}

const ROW = "container-life";
const USED = "container-used";
