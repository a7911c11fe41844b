import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type Line, LineSplitter } from "../../node/line-splitter.ts";
import { reasonOf } from "../../node/log.ts";
import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { CliError, EXIT } from "../exit.ts";
import { Pending } from "./pending-requests.ts";
import { type LinkOptions, openLink } from "./reconnecting-link.ts";

/** How long the last words of an editor may take. */
const GOODBYE_MS = 5_000;

export type BridgeOptions = Omit<LinkOptions, "frames" | "unrestored"> & {
  input: Readable;
  output: Writable;
  signal?: AbortSignal;
};

/**
 * A remote agent as a local one: ACP on two pipes towards the editor, a resumable link towards the gateway. Ends when
 * the editor has left, or with an error that trying again would not mend.
 */
export async function runBridge(options: BridgeOptions): Promise<CliError | undefined> {
  const { input, output, log, limits } = options;
  const pending = new Pending();
  const splitter = new LineSplitter(limits.frameChars);
  /** The editor does not read as fast as the agent writes. */
  let room: Promise<void> | undefined;

  const write = (lines: readonly string[]) => {
    if (lines.length === 0 || output.write(`${lines.join("\n")}\n`)) return undefined;
    room ??= once(output, "drain").then(() => {
      room = undefined;
    });
    return room;
  };

  const { link, ended } = openLink({
    ...options,
    frames: (lines) => write(lines.filter((line) => pending.answered(line))),
    unrestored: (sessionId, reason) => void write(pending.fail(`acp-edge: ${reason}`, sessionId)),
  });

  const forward = async (lines: Line[]) => {
    const frames = lines.filter((line): line is string => typeof line === "string" && line.trim() !== "");
    for (const line of lines) {
      if (typeof line === "string") continue;
      const message = `Not sent: ${line.noise.slice(0, 200)}`;
      log(message);
      // It may have been a request, of which nobody knows the id.
      void write([errorResponse("null", { code: ErrorCode.invalidRequest, message })]);
    }
    for (const line of frames) pending.asked(line);
    await link.send(frames);
  };

  const reading = (async () => {
    for await (const chunk of input) await forward(splitter.push(chunk as Buffer));
    await forward(splitter.end());
    await Promise.race([link.drained(), sleep(GOODBYE_MS, undefined, { ref: false })]);
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
