/**
 * A remote agent as a local command: ACP on stdio towards the editor, a WebSocket towards the gateway.
 * Nothing but ACP goes to stdout; what there is to say goes to stderr.
 */
import { parseArgs } from "node:util";
import { WebSocket } from "ws";
import { LineSplitter } from "../host/line-splitter.ts";
import { oneLine } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";

const USAGE = "usage: connect <ws-url> [--token TOKEN], or the token in ACP_EDGE_TOKEN";

function fail(message: string, code: number): never {
  process.stderr.write(`acp-edge: ${message}\n`);
  process.exit(code);
}

function options(): { url: string; token: string } {
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: { token: { type: "string" } },
    });
    const token = values.token ?? process.env.ACP_EDGE_TOKEN;
    if (positionals[0] === undefined || positionals.length > 1 || !token) fail(USAGE, 2);
    return { url: positionals[0], token };
  } catch (error) {
    fail(`${(error as Error).message}\n${USAGE}`, 2);
  }
}

const { url, token } = options();
const socket = new WebSocket(url, {
  headers: { authorization: `Bearer ${token}` },
  perMessageDeflate: false,
  maxPayload: 4 * LIMITS.frameChars,
});

// ---- editor → gateway: what is typed before the socket is open waits in the pipe -------------------------

const splitter = new LineSplitter();
process.stdin.pause();

function forward(lines: ReturnType<LineSplitter["push"]>): void {
  for (const line of lines) {
    if (typeof line !== "string") process.stderr.write(`acp-edge: not sent: ${line.noise.slice(0, 200)}\n`);
    else if (line.trim() !== "") socket.send(line);
  }
}

process.stdin.on("data", (chunk: Buffer) => {
  forward(splitter.push(chunk));
  if (socket.bufferedAmount < LIMITS.linkBatchChars) return;
  // A ping is written after all that waits: when it is out, so is the rest.
  process.stdin.pause();
  socket.ping(undefined, undefined, () => process.stdin.resume());
});
process.stdin.on("end", () => {
  forward(splitter.end());
  socket.close(1000);
});

// ---- gateway → editor: a slow editor slows the socket down -------------------------------------------------

socket.on("open", () => process.stdin.resume());
socket.on("message", (data) => {
  if (!process.stdout.write(`${oneLine(data.toString())}\n`)) socket.pause();
});
process.stdout.on("drain", () => socket.resume());
socket.on("unexpected-response", (_, response) =>
  fail(`the gateway refused the connection: HTTP ${response.statusCode}`, 1),
);
socket.on("error", (error) => fail(`the gateway cannot be reached: ${error.message}`, 1));
socket.on("close", (code, reason) => {
  if (code === 1000) process.exit(0);
  fail(`the connection ended: ${code} ${reason.toString()}`, 1);
});

process.stdout.on("error", () => process.exit(0));
