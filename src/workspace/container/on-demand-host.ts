import type { Deadlines } from "../../durable/deadlines.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { WorkspaceCallbacks } from "../callbacks.ts";
import type { WorkspaceIdentity, WorkspaceStore } from "../store.ts";
import { hostEnvironment } from "./host-environment.ts";
import { mintHostToken } from "./host-token.ts";
import {
  type ContainerState,
  connected,
  describe,
  ended,
  NEVER_STARTED,
  nextStartAt,
  started,
  stopped,
} from "./lifecycle.ts";
import { CONTAINER_HOST, missingConfiguration } from "./starter.ts";

type Timers = Pick<Deadlines<"container" | "container-token">, "set" | "clear">;

type Callbacks = Pick<
  WorkspaceCallbacks,
  "containerLastUsed" | "isContainerExpected" | "containerEnded" | "containerDraining"
>;

/**
 * The host that the workspace starts in a container when sessions need one, and ends when none does. The state is a
 * row and the timers are deadlines of the object, so an eviction neither loses nor repeats a start.
 */
export class OnDemandHost {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #store: WorkspaceStore;
  readonly #timers: Timers;
  readonly #callbacks: Callbacks;

  constructor(
    ctx: DurableObjectState,
    env: Env,
    limits: Limits,
    store: WorkspaceStore,
    timers: Timers,
    callbacks: Callbacks,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#limits = limits;
    this.#store = store;
    this.#timers = timers;
    this.#callbacks = callbacks;
  }

  get state(): ContainerState {
    return this.#store.get<ContainerState>(STATE) ?? NEVER_STARTED;
  }

  /** Whether the workspace's settings ask for a container. */
  get isConfigured(): boolean {
    return this.#store.settings().container !== null;
  }

  /** Whether a container runs or may be started now, so that waiting for it makes sense. */
  get isComing(): boolean {
    const { state } = this;
    return this.#isPossible && (state.state !== "asleep" || nextStartAt(state, this.#limits) <= Date.now());
  }

  get #isPossible(): boolean {
    return this.isConfigured && missingConfiguration(this.#env) === undefined;
  }

  describe(): string {
    const missing = missingConfiguration(this.#env);
    return missing === undefined ? describe(this.state) : `a container. ${missing}`;
  }

  /** Starts the container, or starts it later if it has just failed. */
  request(): void {
    const { state } = this;
    if (!this.#isPossible || state.state !== "asleep") return;
    const at = nextStartAt(state, this.#limits);
    if (at > Date.now()) return this.#timers.set("container", at);
    const next = started(state, Date.now());
    this.#enter(next, this.#limits.containerStartMs);
    this.#ctx.waitUntil(this.#start(next.startNumber));
  }

  /** A host has said hello. */
  hostConnected(name: string): void {
    const { state } = this;
    // A start that was reported as failed may have succeeded after all.
    const isExpected = state.state === "starting" || state.state === "asleep";
    if (name !== CONTAINER_HOST || !this.isConfigured || !isExpected) return;
    this.#enter(connected(state, Date.now()), this.#sleepAfterMs);
    this.#setTokenTimer();
  }

  /** A session has just released the container. */
  markUsed(): void {
    this.#store.set(LAST_USED, Date.now());
  }

  /** The container of that start has ended. False: the report is out of date. */
  markEnded(startNumber: number, reason: string): boolean {
    const { state } = this;
    if (state.startNumber !== startNumber || state.state === "asleep") return false;
    this.#timers.clear("container");
    this.#timers.clear("container-token");
    this.#save(ended(state, Date.now(), reason, this.#limits));
    return true;
  }

  isWanted(startNumber: number): boolean {
    const { state } = this;
    return state.startNumber === startNumber && (state.state === "up" || state.state === "starting");
  }

  /** The settings have changed: the container is checked against them at once. */
  reconsider(): void {
    const { state } = this.state;
    if (state === "up" || state === "starting") this.#timers.set("container", Date.now());
  }

  /** Serves the deadline of the current state. */
  async check(): Promise<void> {
    const { state } = this;
    const { containerStartMs } = this.#limits;
    switch (state.state) {
      case "asleep":
        return;
      case "starting": {
        const left = state.since + containerStartMs - Date.now();
        if (left > 0 && this.isConfigured) return this.#timers.set("container", Date.now() + left);
        return this.#stop(state, `its host has not dialled in within ${containerStartMs} ms`);
      }
      case "up":
        return this.#checkUse(state);
      case "stopping":
        return this.#end(state.startNumber, { immediately: true });
    }
  }

  async #checkUse(state: ContainerState): Promise<void> {
    if (!this.#callbacks.isContainerExpected())
      return this.#stop(state, "its host has left and has not come back in time");
    // Set before the sessions are asked, so that the container is checked again whatever happens meanwhile.
    this.#timers.set("container", Date.now() + this.#sleepAfterMs);
    const lastUsed = await this.#callbacks.containerLastUsed();
    if (!this.isWanted(state.startNumber)) return;
    const now = Date.now();
    const last = Math.max(lastUsed ?? now, this.#store.get<number>(LAST_USED) ?? 0, state.since);
    const until = last + this.#sleepAfterMs;
    if (until > now && this.isConfigured) return this.#timers.set("container", until);
    await this.#stop(state);
  }

  /** A new token for the host of a running container. */
  async newToken(): Promise<string | undefined> {
    const identity = this.#store.identity();
    if (!identity || this.state.state !== "up") return undefined;
    this.#setTokenTimer();
    return mintHostToken(this.#env, identity, this.#limits.containerTokenMs);
  }

  async #start(startNumber: number): Promise<void> {
    const identity = this.#store.identity();
    const { container } = this.#store.settings();
    if (!identity || !container) return;
    const { containerTokenMs, containerDrainMs } = this.#limits;
    try {
      const token = await mintHostToken(this.#env, identity, containerTokenMs);
      const gateway = this.#env.PUBLIC_URL ?? "";
      const env = hostEnvironment(gateway, identity.workspace, token, containerDrainMs, container);
      await this.#starter(identity).wake({ ...identity, startNumber, env });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      console.error("container not started", { ...identity, reason });
      await this.#callbacks.containerEnded(startNumber, reason);
    }
  }

  async #stop(state: ContainerState, failure?: string): Promise<void> {
    const { containerDrainMs, containerStopMs } = this.#limits;
    this.#enter(stopped(state, Date.now(), failure), containerDrainMs + containerStopMs);
    if (failure === undefined) this.#callbacks.containerDraining();
    await this.#end(state.startNumber, { immediately: failure !== undefined });
  }

  /** A container that does not end is told again when the deadline comes. */
  async #end(startNumber: number, { immediately }: { immediately: boolean }): Promise<void> {
    const identity = this.#store.identity();
    if (!identity) return;
    if (immediately) this.#timers.set("container", Date.now() + this.#limits.containerStopMs);
    try {
      const starter = this.#starter(identity);
      const isRunning = await (immediately ? starter.end() : starter.drain());
      if (!isRunning) await this.#callbacks.containerEnded(startNumber, "it has ended");
    } catch (error) {
      console.error("container not stopped", { ...identity, error: String(error) });
    }
  }

  #starter({ tenant, workspace }: WorkspaceIdentity) {
    const containers = this.#env.AGENT_CONTAINER;
    if (!containers) throw new Error(missingConfiguration(this.#env));
    return containers.getByName(`${tenant}/${workspace}`);
  }

  get #sleepAfterMs(): number {
    return this.#store.settings().container?.sleepAfterMs ?? this.#limits.containerSleepMs;
  }

  /** A token is renewed after half of its life. */
  #setTokenTimer(): void {
    this.#timers.set("container-token", Date.now() + this.#limits.containerTokenMs / 2);
  }

  #enter(state: ContainerState, forMs: number): void {
    this.#save(state);
    this.#timers.set("container", Date.now() + forMs);
  }

  #save(state: ContainerState): void {
    this.#store.set(STATE, state);
  }
}

/** The names of two rows of the table `setting`. */
const STATE = "container-life";
const LAST_USED = "container-used";
