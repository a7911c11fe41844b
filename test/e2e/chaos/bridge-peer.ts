/** An editor that runs `acp-edge connect` as its agent. The bridge outlives every loss of its socket. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Random } from "../../fixtures/random.ts";
import { type Message, Peer, type SentAnswers } from "./peer.ts";

const COMMAND = fileURLToPath(new URL("../../../src/cli/command/main.ts", import.meta.url));

export class BridgePeer extends Peer {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;

  constructor(
    name: string,
    address: { url: string; token: string; env: Record<string, string> },
    answers: SentAnswers,
    random: Random,
  ) {
    super(name, answers, random);
    const { url, token, env } = address;
    this.#child = spawn(process.execPath, [COMMAND, "connect", url, "--heartbeat", "0.5"], {
      stdio: ["pipe", "pipe", "ignore"],
      env: { ...process.env, ...env, ACP_EDGE_TOKEN: token },
    });
    this.#child.stdin.on("error", () => {});
    createInterface({ input: this.#child.stdout }).on("line", (line) =>
      this.receive(JSON.parse(line) as Message),
    );
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  async open(cwd: string): Promise<void> {
    await this.call("initialize", { protocolVersion: 1, clientCapabilities: {} });
    const result = await this.call("session/new", { cwd, mcpServers: [] });
    this.sessionId = (result as { sessionId: string }).sessionId;
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const closed = once(this.#child, "close");
    this.#child.stdin.end();
    await closed;
  }

  protected override transmit(message: Message): void {
    this.noteSent(message);
    this.#child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }
}
