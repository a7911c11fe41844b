/** An editor that runs the bridge as its agent over two pipes. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { PassThrough, Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import {
  type ClientContext,
  client,
  ndJsonStream,
  type PromptResponse,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
} from "@agentclientprotocol/sdk";
import { onTestFinished } from "vitest";
import { BadNetwork } from "./bad-network.ts";
import type { Gateway } from "./gateway.ts";

const COMMAND = fileURLToPath(new URL("../../src/cli/command/main.ts", import.meta.url));

export type EditorOptions = {
  /** Further arguments of `acp-edge connect`. */
  args?: readonly string[];
  env?: Record<string, string>;
  onPermission?: (request: RequestPermissionRequest) => Promise<RequestPermissionResponse>;
};

export type Bridge = ChildProcess & { stdin: Writable; stdout: Readable; stderr: Readable };

export function startBridge(url: string, token: string, { args = [], env = {} }: EditorOptions = {}): Bridge {
  const child = spawn(process.execPath, [COMMAND, "connect", url, "--heartbeat", "0.5", ...args], {
    stdio: "pipe",
    env: { ...process.env, ACP_EDGE_TOKEN: token, ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child as Bridge;
}

export class Editor {
  readonly agent: ClientContext;
  readonly child: Bridge;
  /** All lines the bridge has written. */
  stdout = "";
  stderr = "";
  readonly #wakers = new Set<() => void>();

  constructor(url: string, token: string, options: EditorOptions = {}) {
    this.child = startBridge(url, token, options);
    const output = new PassThrough();
    this.child.stdout.on("data", (chunk: Buffer) => {
      this.stdout += chunk.toString("latin1");
      output.write(chunk);
      for (const wake of this.#wakers) wake();
    });
    this.child.stdout.on("end", () => output.end());
    this.child.stderr.on("data", (chunk: Buffer) => (this.stderr += chunk.toString()));
    const app = client({ name: "editor" })
      .onNotification("session/update", () => {})
      .onRequest("session/request_permission", ({ params }) => (options.onPermission ?? first)(params));
    this.agent = app.connect(
      ndJsonStream(
        Writable.toWeb(this.child.stdin) as WritableStream<Uint8Array>,
        Readable.toWeb(output) as ReadableStream<Uint8Array>,
      ),
    ).agent;
  }

  async newSession(): Promise<string> {
    return (await this.agent.request("session/new", { cwd: "/anywhere", mcpServers: [] })).sessionId;
  }

  prompt(sessionId: string, text: string): Promise<PromptResponse> {
    return this.agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  }

  /** Waits until the bridge has written this. */
  reads(text: string): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!this.stdout.includes(text)) return;
        this.#wakers.delete(look);
        resolve();
      };
      this.#wakers.add(look);
      look();
    });
  }

  /** Closes the bridge's stdin and waits for the bridge to end. */
  async end(): Promise<string> {
    this.child.stdin.end();
    await once(this.child, "close");
    return this.stdout;
  }
}

/** An editor that has sent initialize. */
export async function openEditor(url: string, token: string, options?: EditorOptions): Promise<Editor> {
  const editor = new Editor(url, token, options);
  await editor.agent.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return editor;
}

/** An editor with a session, connected through its own network. */
export async function onTheRoad(gateway: Gateway, options?: EditorOptions) {
  const way = await BadNetwork.to(gateway.url);
  onTestFinished(() => way[Symbol.asyncDispose]());
  const editor = await openEditor(way.url(gateway.wsUrl), gateway.token, options);
  return { way, editor, sessionId: await editor.newSession() };
}

/** The numbers of a `/stream`, as the bridge wrote them. */
export function chunks(text: string): number[] {
  return [...text.matchAll(/"text":"(\d{6}) /g)].map((match) => Number(match[1]));
}

async function first({ options }: RequestPermissionRequest): Promise<RequestPermissionResponse> {
  return { outcome: { outcome: "selected", optionId: options[0]?.optionId ?? "" } };
}
