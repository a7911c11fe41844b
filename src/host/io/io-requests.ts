import type { z } from "zod";
import type { Timing } from "../../node/timing.ts";
import { ErrorCode, errorResponse, resultResponse } from "../../protocol/errors.ts";
import { isFault, readFrame } from "../../protocol/frame.ts";
import type { Limits } from "../../protocol/limits.ts";
import { schemaFault } from "../../protocol/schema-fault.ts";
import type { ProcessGroup, ProcessGroupListener } from "../os/process-group.ts";
import { IoFault, toRpcError } from "./io-fault.ts";
import type { TerminalReports } from "./terminal-report.ts";
import { createParams, type TerminalContext, Terminals, terminalParams } from "./terminals.ts";
import { readParams, readTextFile, writeParams, writeTextFile } from "./text-files.ts";

/** The number of requests that may be in progress, counting those that wait for a command to exit. */
const REQUESTS_MAX = 1000;

type Handler = (params: unknown) => unknown;

/** Receives the responses, and the reports of terminals; `room` resolves when there is space for another one. */
type Answers = TerminalReports & {
  push(response: string): void;
  room(): Promise<void>;
  /** The marks of removed secrets in a text. */
  marksIn(text: string): string[];
};

export type IoContext = TerminalContext & { timing: Timing; limits: Limits };

/**
 * Serves the file and terminal requests of one agent process inside the workspace. Requests are served one after
 * another, so that a read sees the preceding write and responses do not accumulate. Only a request that waits for a
 * command to exit does not block the queue.
 */
export class IoRequests {
  readonly #handlers: Readonly<Record<string, Handler>>;
  readonly #terminals: Terminals;
  readonly #answers: Answers;
  readonly #ioMs: number;
  readonly #limits: Limits;
  #frameChars: number;
  #queue: Promise<void> = Promise.resolve();
  #queuedChars = 0;
  #inProgress = 0;

  constructor(
    context: IoContext,
    env: Readonly<Record<string, string>>,
    answers: Answers,
    groups?: ProcessGroupListener | undefined,
  ) {
    const { timing, limits } = context;
    const terminals = new Terminals(context, env, answers, groups);
    const files = { root: context.root, hidden: context.isolation.hidden, user: context.isolation.user };
    this.#terminals = terminals;
    this.#ioMs = timing.ioMs;
    this.#limits = limits;
    this.#frameChars = limits.frameChars;
    this.#answers = answers;
    this.#handlers = {
      "fs/read_text_file": checked(readParams, (params) => readTextFile(files, params)),
      "fs/write_text_file": checked(writeParams, (params) =>
        writeTextFile(files, params, answers.marksIn(params.content)),
      ),
      "terminal/create": checked(createParams, (params) => terminals.create(params)),
      "terminal/output": checked(terminalParams, (params) => {
        const { output, truncated, exitStatus, ...more } = terminals.output(params);
        const ends = { isCut: truncated, goesOn: exitStatus === undefined };
        return {
          ...more,
          output: answers.redactPart(output, ends),
          truncated,
          ...(exitStatus && { exitStatus }),
        };
      }),
      "terminal/wait_for_exit": checked(terminalParams, (params) => terminals.waitForExit(params)),
      "terminal/kill": checked(terminalParams, (params) => terminals.kill(params)),
      "terminal/release": checked(terminalParams, (params) => terminals.release(params)),
    };
  }

  /** Whether the queued requests exceed the window; `idle` resolves when they have been served. */
  get isFull(): boolean {
    return this.#queuedChars > this.#limits.hostWindowChars;
  }

  get idle(): Promise<void> {
    return this.#queue;
  }

  /** The process groups of the terminals. */
  get groups(): ProcessGroup[] {
    return this.#terminals.groups;
  }

  serves(method: unknown): boolean {
    return typeof method === "string" && Object.hasOwn(this.#handlers, method);
  }

  /** Queues a request whose method is served here. */
  accept(raw: string): void {
    this.#queuedChars += raw.length;
    this.#queue = this.#queue.then(async () => {
      this.#queuedChars -= raw.length;
      const frame = readFrame(raw);
      if (isFault(frame) || frame.idText === undefined || frame.method === undefined) return;
      await this.#answers.room();
      const answer = this.#answer(frame.idText, frame.method, frame.value.params);
      if (frame.method !== "terminal/wait_for_exit") await answer;
    });
  }

  /** The session takes no larger frames. */
  limitFrames(frameChars: number): void {
    this.#frameChars = Math.min(this.#frameChars, frameChars);
  }

  async close(): Promise<void> {
    await this.#terminals.close();
  }

  async #answer(idText: string, method: string, params: unknown): Promise<void> {
    this.#inProgress++;
    try {
      if (this.#inProgress > REQUESTS_MAX)
        throw new IoFault(ErrorCode.internal, "too many requests are in progress");
      const work = Promise.resolve(this.#handlers[method]?.(params));
      const result = await (method === "terminal/wait_for_exit" ? work : within(this.#ioMs, work));
      const response = resultResponse(idText, result);
      if (!fits(response, this.#frameChars))
        throw new IoFault(ErrorCode.internal, "the response is too large to be sent");
      this.#answers.push(response);
    } catch (error) {
      this.#answers.push(errorResponse(idText, toRpcError(error)));
    } finally {
      this.#inProgress--;
    }
  }
}

/** A file system that hangs must not keep the agent waiting forever. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const error = new IoFault(ErrorCode.internal, `the file system did not respond within ${ms} ms`);
  const timer = setTimeout(() => late.reject(error), ms);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function checked<Schema extends z.ZodType>(
  schema: Schema,
  handle: (params: z.infer<Schema>) => unknown,
): Handler {
  return (params) => {
    const parsed = schema.safeParse(params);
    if (!parsed.success) throw new IoFault(ErrorCode.invalidParams, schemaFault(parsed.error));
    return handle(parsed.data);
  };
}

/** A response travels as a JSON string inside an event, where quotes and backslashes take another character. */
function fits(response: string, frameChars: number): boolean {
  if (response.length * 3 <= frameChars) return true;
  return Buffer.byteLength(JSON.stringify(response)) <= frameChars;
}
