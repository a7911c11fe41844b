import type { Deadlines } from "../../durable/deadlines.ts";
import { callObject } from "../../durable/object-call.ts";
import { containerObject } from "../../durable/objects.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { WorkspaceCallbacks } from "../callbacks.ts";
import type { WorkspaceIdentity, WorkspaceStore } from "../store.ts";
import { hostEnvironment } from "./host-environment.ts";
import { IssuedTokens } from "./issued-tokens.ts";
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
import { hostSubject, type IssuedToken } from "./minted-token.ts";
import { CONTAINER_HOST, missingConfiguration } from "./starter.ts";

type Timers = Pick<Deadlines<"container" | "container-token" | "ended-tokens">, "set" | "clear">;

type Callbacks = Pick<
  WorkspaceCallbacks,
  "containerLastUsed" | "isContainerExpected" | "containerEnded" | "containerDraining" | "decryptSecrets"
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
  readonly #tokens: IssuedTokens;

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
    this.#tokens = new IssuedTokens(env, store, limits.containerTokenMs);
  }

  get state(): ContainerState {
    return this.#store.get<ContainerState>(STATE) ?? NEVER_STARTED;
  }

  /** The tokens of the container's host. */
  get tokens(): IssuedToken[] {
    return this.#tokens.list();
  }

  /** Whether the workspace itself has issued the token to its container. */
  hasIssued(jti: string | undefined): boolean {
    return this.#tokens.has(jti);
  }

  /** The subject of the tokens that the workspace issues. */
  get issuedSubject(): string {
    return hostSubject(CONTAINER_HOST, this.#store.identity()?.workspace ?? "");
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
    const identity = this.#store.identity();
    // A start that was reported as failed may have succeeded after all: its host keeps its token.
    if (identity && state.state !== "starting") {
      this.#tokens.markEnding();
      // The deadline is set first: an eviction or a failure repeats the order.
      this.#timers.set("ended-tokens", Date.now() + this.#limits.revocationWaitMs);
      this.#ctx.waitUntil(this.endTokens().catch(() => {}));
    }
    return true;
  }

  /** Ends the tokens of containers that have ended. Throws if the tenant has not confirmed it. */
  async endTokens(): Promise<void> {
    const identity = this.#store.identity();
    if (identity) await this.#tokens.end(identity);
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
    return this.#tokens.issue(identity);
  }

  async #start(startNumber: number): Promise<void> {
    const identity = this.#store.identity();
    const { container } = this.#store.settings();
    if (!identity || !container) return;
    const { containerDrainMs, containerStartMs } = this.#limits;
    try {
      const token = await this.#tokens.issue(identity);
      const gateway = this.#env.PUBLIC_URL ?? "";
      const secrets = container.git ? await this.#callbacks.decryptSecrets() : {};
      const env = hostEnvironment(gateway, identity.workspace, token, containerDrainMs, container, secrets);
      // An order that comes a second time starts a container that is running: nothing.
      await callObject(
        () => this.#starter(identity),
        (starter) => starter.wake({ ...identity, startNumber, env }),
        { timeoutMs: containerStartMs },
      );
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
      const isRunning = await callObject(
        () => this.#starter(identity),
        (starter) => (immediately ? starter.end() : starter.drain()),
        { timeoutMs: this.#limits.containerStopMs },
      );
      if (!isRunning) await this.#callbacks.containerEnded(startNumber, "it has ended");
    } catch (error) {
      console.error("container not stopped", { ...identity, error: String(error) });
    }
  }

  #starter({ tenant, workspace }: WorkspaceIdentity) {
    const container = containerObject(this.#env, tenant, workspace);
    if (!container) throw new Error(missingConfiguration(this.#env));
    return container;
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
