import type { Writable } from "node:stream";
import pc from "picocolors";

/** An output stream and its colours. Only a terminal that a person reads has colours. */
export type Terminal = {
  readonly stream: Writable & { isTTY?: boolean };
  readonly isTTY: boolean;
  readonly colours: ReturnType<typeof pc.createColors>;
};

export function terminal(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Terminal {
  const isTTY = stream.isTTY === true;
  return { stream, isTTY, colours: pc.createColors(isTTY && !env.NO_COLOR && env.TERM !== "dumb") };
}
