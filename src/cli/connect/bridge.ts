import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type Line, LineSplitter } from "../../node/line-splitter.ts";
import { reasonOf } from "../../node/log.ts";
import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { readHead } from "../../protocol/message-head.ts";
import { CliError, EXIT } from "../cli-error.ts";
import { openReconnectingLink, type ReconnectingLinkOptions } from "../gateway/reconnecting-link.ts";
import { PendingRequests } from "./pending-requests.ts";

/** How long the last messages of an editor may take to reach the gateway. */
const DRAIN_MS = 5_000;

export type BridgeOptions = Omit<ReconnectingLinkOptions, "frames" | "unrestored"> & {
  input: Readable;
  output: Writable;
  signal?: AbortSignal;
};

/**
 * Presents a remote agent as a local process: ACP on two pipes towards the editor, a resumable link towards the
 * gateway. Ends when the editor closes its pipe, or with an error that retrying cannot solve.
 */
export async function runBridge(options: BridgeOptions): Promise<CliError | undefined> {
  const { input, output, log, limits } = options;
  const pending = new PendingRequests();
  const splitter = new LineSplitter(limits.frameChars);
  /** Resolves when the editor has read enough for more output; undefined while there is room. */
  let room: Promise<void> | undefined;

  const write = (lines: readonly string[]) => {
    if (lines.length === 0 || output.write(`${lines.join("\n")}\n`)) return undefined;
    room ??= once(output, "drain").then(() => {
      room = undefined;
    });
    return room;
  };

  const { link, ended } = openReconnectingLink({
    ...options,
    frames: (lines) => write(lines.filter((line) => pending.settle(line))),
    unrestored: (sessionId, reason) => void write(pending.fail(`acp-edge: ${reason}`, sessionId)),
  });

  const forward = async (lines: Line[]) => {
    const frames: string[] = [];
    for (const line of lines) {
      if (typeof line === "string") {
        if (line.trim() !== "") frames.push(line);
        continue;
      }
      const message = `Not sent: ${line.noise.slice(0, 200)}`;
      log(message);
      const { kind, idText = "null" } = readHead(line.beginning ?? line.noise, line.end) ?? {};
      // Nobody must wait for the line: the agent gets an error in place of an answer, the editor one for a request.
      if (kind === "response") frames.push(errorResponse(idText, { code: ErrorCode.internal, message }));
      else void write([errorResponse(idText, { code: ErrorCode.invalidRequest, message })]);
    }
    for (const line of frames) pending.add(line);
    await link.send(frames);
  };

  const reading = (async () => {
    for await (const chunk of input) await forward(splitter.push(chunk as Buffer));
    await forward(splitter.end());
    await Promise.race([link.drained(), sleep(DRAIN_MS, undefined, { ref: false })]);
  })();
  const gone = Promise.withResolvers<undefined>();
  options.signal?.addEventListener("abort", () => gone.resolve(undefined));
  output.on("error", () => gone.resolve(undefined));

  const end = await Promise.race([ended, reading, gone.promise]).catch(
    (error: unknown) => new CliError(reasonOf(error), EXIT.error),
  );
  if (end) void write(pending.fail(`acp-edge: ${end.message}`));
  link.close();
  return end ?? undefined;
}
