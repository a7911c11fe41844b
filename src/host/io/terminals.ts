import { randomUUID } from "node:crypto";
import { z } from "zod";
import { reasonOf } from "../../node/log.ts";
import { ErrorCode } from "../../protocol/errors.ts";
import type { ProcessGroupListener } from "../os/process-group.ts";
import { CommandTerminal, type ExitStatus, type TerminalTiming } from "./command-terminal.ts";
import { IoFault } from "./io-fault.ts";
import { resolveInWorkspace } from "./workspace-path.ts";

const OUTPUT_BYTES = 1024 * 1024;
/** The most output that an agent may ask the host to keep: the response must still fit in a frame. */
const OUTPUT_BYTES_MAX = 8 * OUTPUT_BYTES;
const TERMINALS_MAX = 100;

export const createParams = z.object({
  command: z.string().min(1),
  args: z.array(z.string()).nullish(),
  env: z.array(z.object({ name: z.string(), value: z.string() })).nullish(),
  cwd: z.string().nullish(),
  outputByteLimit: z.int().nonnegative().nullish(),
});

export const terminalParams = z.object({ terminalId: z.string() });

type TerminalParams = z.infer<typeof terminalParams>;

/** The terminals of one agent process. */
export class Terminals {
  readonly #root: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #timing: TerminalTiming;
  readonly #groups: ProcessGroupListener | undefined;
  readonly #terminals = new Map<string, CommandTerminal>();
  /** Commands that are being started, and released commands that are being ended. */
  readonly #unfinished = new Set<Promise<unknown>>();
  #closed = false;

  /** `env` is the environment of all commands; the agent may add variables for each. */
  constructor(
    root: string,
    env: Readonly<Record<string, string>>,
    timing: TerminalTiming,
    groups?: ProcessGroupListener | undefined,
  ) {
    this.#root = root;
    this.#env = env;
    this.#timing = timing;
    this.#groups = groups;
  }

  /** The process groups of the terminals that are not released. */
  get groups(): number[] {
    return [...this.#terminals.values()].map(({ group }) => group);
  }

  async create(params: z.infer<typeof createParams>): Promise<TerminalParams> {
    if (this.#terminals.size >= TERMINALS_MAX) {
      throw new IoFault(
        ErrorCode.internal,
        `${TERMINALS_MAX} terminals are open: release some of them first`,
      );
    }
    const cwd = await resolveInWorkspace(this.#root, params.cwd ?? ".");
    const limit = Math.min(params.outputByteLimit ?? OUTPUT_BYTES, OUTPUT_BYTES_MAX);
    const { command, args, env } = params;
    if (this.#closed) throw new IoFault(ErrorCode.internal, "the agent is gone");
    const terminalId = randomUUID();
    const starting = CommandTerminal.start(
      { command, args: args ?? [], env: { ...this.#env, ...named(env ?? []) }, cwd, outputByteLimit: limit },
      this.#timing,
    ).then((terminal) => {
      this.#terminals.set(terminalId, terminal);
      this.#groups?.groupStarted(terminal.group);
      void terminal.gone.then(() => this.#groups?.groupEnded(terminal.group));
    });
    await this.#finish(starting).catch((error) => {
      throw new IoFault(ErrorCode.internal, `cannot run ${command}: ${reasonOf(error)}`);
    });
    return { terminalId };
  }

  output(params: TerminalParams): ReturnType<CommandTerminal["output"]> {
    return this.#find(params).output();
  }

  waitForExit(params: TerminalParams): Promise<ExitStatus> {
    return this.#find(params).exited;
  }

  /** Ends the command. The terminal stays, so that its output can still be read. */
  kill(params: TerminalParams): Record<string, never> {
    void this.#find(params).kill();
    return {};
  }

  release(params: TerminalParams): Record<string, never> {
    void this.#finish(this.#find(params).kill());
    this.#terminals.delete(params.terminalId);
    return {};
  }

  /** Ends all commands, because the agent that could use them has exited. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#unfinished);
    await Promise.all([...this.#terminals.values()].map((terminal) => terminal.kill()));
  }

  async #finish<T>(work: Promise<T>): Promise<T> {
    this.#unfinished.add(work);
    try {
      return await work;
    } finally {
      this.#unfinished.delete(work);
    }
  }

  #find({ terminalId }: TerminalParams): CommandTerminal {
    const terminal = this.#terminals.get(terminalId);
    if (!terminal) throw new IoFault(ErrorCode.notFound, "Unknown terminal", { terminalId });
    return terminal;
  }
}

function named(env: readonly { name: string; value: string }[]): Record<string, string> {
  return Object.fromEntries(env.map(({ name, value }) => [name, value]));
}
