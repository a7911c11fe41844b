import { setTimeout } from "node:timers/promises";
import {
  type AgentContext,
  type ClientCapabilities,
  type ContentBlock,
  type Implementation,
  type JsonRpcId,
  RequestError,
  type SendRequestOptions,
  type SessionUpdate,
  type StopReason,
  type ToolCall,
  type ToolCallUpdate,
} from "@agentclientprotocol/sdk";
import type { DemoSession } from "./demo-session.ts";
import type { Output } from "./output.ts";

/** The client as it introduced itself in `initialize`. */
export type Peer = {
  protocolVersion: number;
  clientInfo: Implementation | null;
  capabilities: ClientCapabilities;
};

export type Command = {
  name: string;
  /** The syntax of the arguments. */
  hint?: string;
  description: string;
  /** The name of the client capability that the command needs and the client lacks; the command then does not run. */
  lacks?(client: ClientCapabilities, args: string): string | false;
  run(turn: DemoTurn, args: string): void | Promise<void>;
};

/** One running prompt: the means by which commands talk to the client. A cancel ends all of them. */
export class DemoTurn {
  readonly session: DemoSession;
  readonly peer: Peer;
  readonly client: AgentContext;
  readonly out: Output;
  readonly prompt: ContentBlock[];
  readonly requestId: JsonRpcId;
  readonly signal: AbortSignal;
  /** Options for requests to the client: a cancel withdraws a request without waiting for its response. */
  readonly cancellable: SendRequestOptions;
  /** Set by `end`; until then the turn continues with the next command. */
  stopReason: StopReason | undefined;
  #tools = 0;

  constructor(
    parts: Pick<DemoTurn, "session" | "peer" | "client" | "out" | "prompt" | "requestId" | "signal">,
  ) {
    this.session = parts.session;
    this.peer = parts.peer;
    this.client = parts.client;
    this.out = parts.out;
    this.prompt = parts.prompt;
    this.requestId = parts.requestId;
    this.signal = parts.signal;
    this.cancellable = { cancellationSignal: parts.signal, stopWaitingOnCancel: true };
  }

  update(update: SessionUpdate): void {
    this.signal.throwIfAborted();
    this.session.send(update);
  }

  end(stopReason: StopReason): void {
    this.stopReason = stopReason;
  }

  show(content: ContentBlock): void {
    this.update({ sessionUpdate: "agent_message_chunk", content });
  }

  say(text: string): void {
    this.show({ type: "text", text });
  }

  /** Announces a tool call and returns a handle for its updates. Ids are unique across restarts. */
  tool(call: Omit<ToolCall, "toolCallId" | "status">): ToolHandle {
    this.#tools += 1;
    const toolCallId = `call_${this.session.record.prompts}_${this.#tools}`;
    this.update({ sessionUpdate: "tool_call", toolCallId, status: "pending", ...call });
    return {
      toolCallId,
      patch: (changes) => this.update({ sessionUpdate: "tool_call_update", toolCallId, ...changes }),
    };
  }

  async sleep(ms: number): Promise<void> {
    await setTimeout(ms, undefined, { signal: this.signal });
  }

  /** Settles like `promise`, but rejects as soon as the turn is cancelled. */
  orCancelled<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const giveUp = () => reject(this.signal.reason);
      if (this.signal.aborted) giveUp();
      this.signal.addEventListener("abort", giveUp, { once: true });
      promise.then(resolve, reject).finally(() => this.signal.removeEventListener("abort", giveUp));
    });
  }
}

type ToolHandle = {
  toolCallId: string;
  patch(changes: Omit<ToolCallUpdate, "toolCallId">): void;
};

/** Why a request to the client failed, as text for people. Throws if the turn was cancelled. */
export function failureReason(turn: DemoTurn, error: unknown): string {
  turn.signal.throwIfAborted();
  return error instanceof RequestError ? `${error.message} (${error.code})` : String(error);
}

/** The first word of a command's line, and the rest of the line. */
export function firstWord(line: string): [word: string, rest: string] {
  const end = line.search(/\s/);
  return end < 0 ? [line, ""] : [line.slice(0, end), line.slice(end).trimStart()];
}
