import { randomUUID } from "node:crypto";
import type { Line } from "../../node/line-splitter.ts";
import { reasonOf } from "../../node/log.ts";
import { NumberedOutbox } from "../../node/numbered-outbox.ts";
import type { HostEvent } from "../../protocol/host-wire.ts";
import type { IoServer } from "../../protocol/methods.ts";
import type { ExitStatus } from "../io/command-terminal.ts";
import { IoRequests } from "../io/io-requests.ts";
import type { ProcessGroup } from "../os/process-group.ts";
import { RedactedOutput } from "../redaction/redacted-output.ts";
import { Redactor } from "../redaction/redactor.ts";
import { secretsOfFrame } from "../redaction/secret-values.ts";
import { readOutput } from "./agent-output.ts";
import {
  AgentProcess,
  type Launch,
  type ProcessContext,
  type ProcessEnd,
  type ProcessHandlers,
} from "./agent-process.ts";
import { type Initialized, isInitializeAnswer, readInitializeAnswer } from "./initialize.ts";
import { NoiseLimit } from "./noise-limit.ts";

const NOISE_PER_SECOND = 50;

const NO_LAUNCH: Launch = {
  command: [],
  initialize: "",
  env: {},
  terminalEnv: {},
  redactor: new Redactor(),
};

type Spawn = (handlers: ProcessHandlers) => AgentProcess;

/** One agent process from its start to its end, recorded as numbered items for the session. */
export class AgentRun {
  readonly id = randomUUID();
  readonly outbox: NumberedOutbox;
  /** The server of the agent's files and terminals. The session that takes the run decides. */
  io: IoServer = "host";
  /** The session takes the output of terminals. */
  reportsOutput = false;
  /** Resolves when no process of the agent or of its terminals is left. */
  readonly gone: Promise<void>;
  /** Called when the agent has read everything that was written to it. */
  onDrained: () => void = () => {};
  /** Called when the agent wrote output or had a request served. */
  onActivity: () => void = () => {};

  readonly #process: AgentProcess | null;
  /** Knows the secrets of the host, and those that this agent is given by clients. */
  readonly #redactor: Redactor;
  readonly #output: RedactedOutput;
  readonly #windowChars: number;
  readonly #initializeChars: number;
  readonly #io: IoRequests;
  readonly #noise = new NoiseLimit(NOISE_PER_SECOND, (text) => this.#record(["noise", text]));
  readonly #initialized = Promise.withResolvers<Initialized | null>();
  readonly #exited = Promise.withResolvers<void>();
  readonly #deadline: NodeJS.Timeout | undefined;
  #state: "initializing" | "ready" | "stopping" | "exited" = "initializing";
  /** Why the host ended the agent; undefined if the session asked for it. */
  #failure: string | undefined;
  /** Frames for the agent that arrived before its answer to `initialize`. */
  #waiting: string[] = [];
  #waitingChars = 0;
  #throttled = false;

  static start(launch: Launch, context: ProcessContext): AgentRun {
    // The run learns the secrets that clients give this agent.
    const own = { ...launch, redactor: new Redactor(launch.redactor) };
    return new AgentRun(own, context, (handlers) => new AgentProcess(own, context, handlers));
  }

  /** A run that fails immediately, so that the session learns the reason from an ordinary exit. */
  static failed(error: string, context: ProcessContext): AgentRun {
    return new AgentRun(NO_LAUNCH, context, () => {
      throw new Error(error);
    });
  }

  private constructor(launch: Launch, context: ProcessContext, spawn: Spawn) {
    const { timing, limits } = context;
    this.outbox = new NumberedOutbox(limits);
    this.#windowChars = limits.hostWindowChars;
    this.#initializeChars = limits.initializeChars;
    this.#redactor = launch.redactor;
    this.#output = new RedactedOutput(this.#redactor, timing, (items, isUrgent) =>
      this.outbox.push(items, isUrgent),
    );
    const answers = {
      push: (response: string) => {
        this.#record(["answer", response]);
        this.onActivity();
      },
      room: () => this.outbox.room(),
      hasRoom: () => !this.outbox.isFull,
      output: (terminalId: string, data: string) => {
        if (this.reportsOutput && !this.hasExited) this.#output.terminalOutput(terminalId, data);
      },
      ended: (terminalId: string, { exitCode, signal }: ExitStatus) => {
        if (this.reportsOutput) this.#record(["terminal_exit", { terminalId, exitCode, signal }]);
      },
      redactPart: this.#redactor.redactPart.bind(this.#redactor),
      marksIn: this.#redactor.marksIn.bind(this.#redactor),
    };
    this.#io = new IoRequests(context, launch.terminalEnv, answers, launch.groups);
    this.#process = this.#spawn(spawn);
    this.gone = Promise.resolve(this.#process?.gone).then(() => this.#io.close());
    if (!this.#process?.pid) return;

    this.#record(["started", { pid: this.#process.pid, command: launch.command.join(" ") }]);
    this.#say(launch.initialize);
    this.#deadline = setTimeout(() => {
      this.stop(`the agent did not answer initialize within ${timing.initializeMs} ms`);
    }, timing.initializeMs);
  }

  /** The agent's answer to `initialize`, or why there is none; null if the run was stopped before. */
  get initialized(): Promise<Initialized | null> {
    return this.#initialized.promise;
  }

  /** Resolves when the exit is in the outbox. The exit is the last item. */
  get exited(): Promise<void> {
    return this.#exited.promise;
  }

  get hasExited(): boolean {
    return this.#state === "exited";
  }

  /** Whether the agent has neither exited nor been told to stop. */
  get isLive(): boolean {
    return this.#state === "initializing" || this.#state === "ready";
  }

  /** Whether the input that the agent has not read yet exceeds the window. */
  get isInputFull(): boolean {
    return this.#waitingChars + (this.#process?.unreadInput ?? 0) > this.#windowChars;
  }

  /** Writes frames to the agent in order, once the agent is initialized. */
  deliver(frames: readonly string[]): void {
    for (const frame of frames)
      for (const { name, value } of secretsOfFrame(frame)) this.#redactor.learn(name, value);
    if (this.#state === "ready") {
      this.#process?.write(frames);
    } else if (this.#state === "initializing") {
      for (const frame of frames) {
        this.#waiting.push(frame);
        this.#waitingChars += frame.length;
      }
    }
  }

  /** The session takes no larger frames: the agent learns so here, and its output is not sent in vain. */
  limitFrames(frameChars: number): void {
    this.#process?.limitFrames(frameChars);
    this.#io.limitFrames(frameChars);
  }

  /** Ends the agent. `error` tells the session why, unless the session itself asked for the end. */
  stop(error?: string): void {
    this.#stop(error);
  }

  /** Ends the agent without a grace period, because it is over its limits. */
  kill(error: string): void {
    this.#stop(error, 0);
  }

  #stop(error: string | undefined, killAfterMs?: number): void {
    if (!this.isLive) return;
    this.#state = "stopping";
    this.#failure = error;
    this.#process?.stop(killAfterMs);
  }

  /** The process groups of the agent and its terminals. */
  get groups(): ProcessGroup[] {
    return [this.#process?.group ?? [], this.#io.groups].flat();
  }

  #spawn(spawn: Spawn): AgentProcess | null {
    try {
      return spawn({
        lines: (lines) => this.#read(lines),
        drained: () => this.onDrained(),
        ended: (end) => this.#ended(end),
      });
    } catch (error) {
      this.#ended({ code: null, signal: null, stderr: "", error: reasonOf(error) });
      return null;
    }
  }

  /** Writes a frame of the host's own to the agent. */
  #say(frame: string): void {
    this.#record(["sent", frame]);
    this.#process?.write([frame]);
  }

  /** Nothing is recorded after the exit, which is the last item. */
  #record(event: HostEvent): void {
    if (this.#state !== "exited") this.#output.event(event);
  }

  #read(lines: Line[]): void {
    for (const line of lines) {
      const output = readOutput(line);
      if (output === null) continue;
      if ("noise" in output) {
        if (this.#noise.admit()) this.#output.noise(output.noise);
        if (output.refusal !== undefined) this.#say(output.refusal);
        continue;
      }
      if ("dropped" in output) {
        if (this.#noise.admit()) this.#record(["dropped", output.dropped]);
        continue;
      }
      this.#output.frame(output.frame, output.message);
      if (this.io === "host" && this.#io.serves(output.message.method)) {
        // The request is served unredacted, so that a file gets exactly the content that the agent wrote.
        this.#io.accept(output.frame);
      } else if (this.#state === "initializing" && isInitializeAnswer(output.message)) {
        const { frame } = output;
        this.#answered(readInitializeAnswer(this.#redacted(frame), frame.length, this.#initializeChars));
      }
    }
    this.onActivity();
    if (this.#isOverloaded) void this.#throttle();
  }

  #redacted(frame: string): Record<string, unknown> {
    return JSON.parse(this.#redactor.redactJson(frame)) as Record<string, unknown>;
  }

  get #isOverloaded(): boolean {
    return this.outbox.isFull || this.#io.isFull || this.#noise.isFlooded;
  }

  /** Stops reading, so that the agent blocks on its own stdout until the session has caught up. */
  async #throttle(): Promise<void> {
    this.#process?.pause();
    if (this.#throttled) return;
    this.#throttled = true;
    while (this.#isOverloaded) {
      await this.#io.idle;
      await this.outbox.room();
      await this.#noise.calm;
    }
    this.#throttled = false;
    this.#process?.resume();
  }

  #answered(initialized: Initialized): void {
    clearTimeout(this.#deadline);
    this.#initialized.resolve(initialized);
    if ("error" in initialized) {
      this.stop(initialized.error);
      return;
    }
    this.#state = "ready";
    if (this.#waiting.length > 0) this.#process?.write(this.#waiting);
    this.#waiting = [];
    this.#waitingChars = 0;
  }

  #ended({ code, signal, stderr, error }: ProcessEnd): void {
    clearTimeout(this.#deadline);
    this.#noise.flush();
    const why = error === undefined ? this.#endReason() : `the agent could not be started: ${error}`;
    this.#record(["exit", { code, signal, ...(why !== undefined && { error: why }), stderr }]);
    this.#state = "exited";
    this.#waiting = [];
    this.#initialized.resolve(
      why === undefined
        ? null
        : { error: this.#redactor.redact([why, stderr.trim()].filter(Boolean).join(": ")) },
    );
    this.#exited.resolve();
    void this.#io.close();
  }

  /** Why the process ended, if the exit code does not show it. */
  #endReason(): string | undefined {
    return this.#state === "initializing" ? "the agent ended before it answered initialize" : this.#failure;
  }
}
