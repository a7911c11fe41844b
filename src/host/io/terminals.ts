import { randomUUID } from "node:crypto";
import { z } from "zod";
import { reasonOf } from "../../node/log.ts";
import { ErrorCode } from "../../protocol/errors.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Isolation } from "../isolation/isolation.ts";
import type { ProcessGroup, ProcessGroupListener } from "../os/process-group.ts";
import { CommandTerminal, type ExitStatus, type TerminalTiming } from "./command-terminal.ts";
import { IoFault } from "./io-fault.ts";
import { OutputBudget } from "./output-budget.ts";
import { TerminalReport, type TerminalReports } from "./terminal-report.ts";
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

/** Where the commands of terminals run. */
export type TerminalContext = {
  /** The workspace's directory, a real path. */
  root: string;
  timing: TerminalTiming;
  limits: Pick<Limits, "agentTerminalBytes" | "terminalLogChars" | "chunkWindowMs">;
  isolation: Isolation;
  /** The memory for the outputs of all terminals of the host. */
  outputs: OutputBudget;
};

/** The terminals of one agent process. */
export class Terminals {
  readonly #context: TerminalContext;
  readonly #env: Readonly<Record<string, string>>;
  readonly #groups: ProcessGroupListener | undefined;
  readonly #reports: TerminalReports;
  readonly #outputs: OutputBudget;
  readonly #terminals = new Map<string, CommandTerminal>();
  /** Commands that are being started, and released commands that are being ended. */
  readonly #unfinished = new Set<Promise<unknown>>();
  #closed = false;

  /** `env` is the environment of all commands; the agent may add variables for each. */
  constructor(
    context: TerminalContext,
    env: Readonly<Record<string, string>>,
    reports: TerminalReports,
    groups?: ProcessGroupListener | undefined,
  ) {
    this.#context = context;
    this.#reports = reports;
    this.#env = env;
    this.#groups = groups;
    this.#outputs = new OutputBudget(context.limits.agentTerminalBytes, context.outputs);
  }

  /** The process groups of the terminals that are not released. */
  get groups(): ProcessGroup[] {
    return [...this.#terminals.values()].map(({ group }) => group);
  }

  async create(params: z.infer<typeof createParams>): Promise<TerminalParams> {
    if (this.#terminals.size >= TERMINALS_MAX) {
      throw new IoFault(
        ErrorCode.internal,
        `${TERMINALS_MAX} terminals are open: release some of them first`,
      );
    }
    const { root, timing, limits, isolation } = this.#context;
    const cwd = await resolveInWorkspace(root, params.cwd ?? ".");
    const limit = Math.min(params.outputByteLimit ?? OUTPUT_BYTES, OUTPUT_BYTES_MAX);
    const { command, args, env } = params;
    if (this.#closed) throw new IoFault(ErrorCode.internal, "the agent is gone");
    const terminalId = randomUUID();
    const output = this.#outputs.open(limit);
    const report = new TerminalReport(terminalId, this.#reports, {
      chars: limits.terminalLogChars,
      windowMs: limits.chunkWindowMs,
    });
    const starting = CommandTerminal.start(
      {
        command,
        args: args ?? [],
        env: { ...this.#env, ...named(env ?? []) },
        cwd,
        output,
        isolation,
        onOutput: (text) => report.push(text),
      },
      timing,
    ).then((terminal) => {
      this.#terminals.set(terminalId, terminal);
      void terminal.exited.then((status) => report.finish(status));
      const { leader } = terminal.group;
      this.#groups?.groupStarted(leader);
      void terminal.gone.then(() => this.#groups?.groupEnded(leader));
    });
    await this.#finish(starting).catch((error) => {
      this.#outputs.close(output);
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
    const terminal = this.#find(params);
    void this.#finish(terminal.kill());
    terminal.closeOutput(this.#outputs);
    this.#terminals.delete(params.terminalId);
    return {};
  }

  /** Ends all commands, because the agent that could use them has exited. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#unfinished);
    await Promise.all([...this.#terminals.values()].map((terminal) => terminal.kill()));
    for (const terminal of this.#terminals.values()) terminal.closeOutput(this.#outputs);
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
