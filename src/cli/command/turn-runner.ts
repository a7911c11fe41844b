import {
  type ClientContext,
  type ContentBlock,
  type CreateElicitationRequest,
  type CreateElicitationResponse,
  client,
  methods,
  type NewSessionRequest,
  RequestError,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
  type StopReason,
} from "@agentclientprotocol/sdk";
import { isolate, visibleLine } from "../../protocol/visible-text.ts";
import { CliError, EXIT, type ExitCode } from "../cli-error.ts";
import { connectAcp, exitCodeForRpc } from "../gateway/acp-client.ts";
import { ApiClient } from "../gateway/api-client.ts";
import type { Target } from "../gateway/target.ts";
import { brief } from "../text-format.ts";
import type { GatewayOptions } from "./command-options.ts";
import { Conversation } from "./conversation.ts";
import { printJson, printNote, stderr, stdout } from "./output.ts";
import { DECLINED, INTERRUPTED, promptForPermission } from "./permission-prompt.ts";
import { chooseOption } from "./permissions.ts";
import { promptForAnswer } from "./question-prompt.ts";
import type { AskedQuestion } from "./question-text.ts";
import { resolveSessionId, targetOf } from "./resolve.ts";

export type TurnOptions = GatewayOptions & { session?: string; permissions?: Policy; quiet?: boolean };
export type Policy = "ask" | "allow" | "deny" | "wait";

/** Runs one turn, from the prompt to its stop reason. */
export class TurnRunner {
  readonly #options: TurnOptions;
  readonly #policy: Policy;
  readonly #hasPerson: boolean;
  readonly #view = new Conversation(stdout, stderr);
  #sessionId = "";
  #interrupted = false;
  /** Earlier updates belong to another turn: a resumed session may be in the middle of one. */
  #prompted = false;
  #cancel: () => void = () => {};
  readonly #toolCalls = new Map<string, object>();

  constructor(options: TurnOptions) {
    this.#options = options;
    this.#hasPerson = process.stdin.isTTY === true && stderr.isTTY && !options.json;
    this.#policy = options.permissions ?? (this.#hasPerson ? "ask" : "wait");
    if (this.#policy === "ask" && !this.#hasPerson)
      throw new CliError("--permissions ask needs a terminal and excludes --json", EXIT.usage);
  }

  async run(text: string): Promise<ExitCode> {
    const target = targetOf(this.#options);
    process.on("SIGINT", () => this.#interrupt());
    process.on("SIGTERM", () => process.exit(EXIT.terminated));
    const app = client({ name: "acp-edge" })
      .onNotification("*", () => {})
      .onRequest(methods.client.session.requestPermission, ({ params, signal }) =>
        this.#permission(params, signal),
      )
      .onRequest(methods.client.elicitation.create, ({ params, signal }) => this.#question(params, signal));
    const connection = await connectAcp(target, app, {
      capabilities: { elicitation: { form: {}, url: {} } },
      onUpdate: ({ update }) => this.#update(update),
      // Before the prompt, the command reports an error or nothing.
      log: (event) => this.#prompted && this.#say(stderr.colours.dim(event)),
    });
    try {
      const sessionId = await this.#open(connection.agent, target);
      this.#emit({ type: "session", sessionId });
      this.#cancel = () =>
        void connection.agent.notify(methods.agent.session.cancel, { sessionId }).catch(() => {});
      if (this.#interrupted) return EXIT.interrupted;
      const prompt: ContentBlock[] = [{ type: "text", text }];
      this.#prompted = true;
      const { stopReason } = await connection.agent.request(methods.agent.session.prompt, {
        sessionId,
        prompt,
      });
      return this.#ended(stopReason);
    } catch (error) {
      throw this.#failure(error, connection.signal.aborted);
    } finally {
      this.#view.endLine();
      connection.close();
    }
  }

  async #open(agent: ClientContext, target: Target): Promise<string> {
    const request: NewSessionRequest = { cwd: "/", mcpServers: [] };
    if (this.#options.session === undefined) {
      this.#sessionId = (await agent.request(methods.agent.session.new, request)).sessionId;
    } else {
      this.#sessionId = await resolveSessionId(new ApiClient(target), this.#options.session);
      await agent.request(methods.agent.session.resume, { sessionId: this.#sessionId, ...request });
    }
    return this.#sessionId;
  }

  #interrupt(): void {
    if (this.#interrupted) process.exit(EXIT.interrupted);
    this.#interrupted = true;
    this.#say(stderr.colours.dim("cancelling; press Ctrl-C again to exit immediately"));
    this.#cancel();
  }

  #update(update: SessionUpdate): void {
    this.#follow(update);
    if (!this.#prompted) return;
    if (this.#options.json) this.#emit({ type: "update", update });
    else if (!this.#options.quiet || update.sessionUpdate === "agent_message_chunk")
      this.#view.update(update);
  }

  /** Remembers what the agent says of a tool call until the call has ended: its permission request may say less. */
  #follow(update: SessionUpdate): void {
    if (update.sessionUpdate !== "tool_call" && update.sessionUpdate !== "tool_call_update") return;
    const { toolCallId, status } = update;
    if (status === "completed" || status === "failed") return void this.#toolCalls.delete(toolCallId);
    const given = Object.entries(update).filter(([, value]) => value !== undefined && value !== null);
    this.#toolCalls.set(toolCallId, { ...this.#toolCalls.get(toolCallId), ...Object.fromEntries(given) });
  }

  async #permission(
    request: RequestPermissionRequest,
    withdrawn: AbortSignal,
  ): Promise<RequestPermissionResponse> {
    const { options, toolCall } = request;
    this.#emit({ type: "permission", sessionId: this.#sessionId, toolCall, options });
    if (this.#policy === "allow" || this.#policy === "deny") {
      const optionId = chooseOption(this.#policy, false, { options });
      this.#say(stderr.colours.dim(`permission: ${shownTitle(toolCall)}: ${visibleLine(optionId)}`));
      return { outcome: { outcome: "selected", optionId } };
    }
    if (this.#policy === "wait") {
      this.#say(`waiting for permission: ${shownTitle(toolCall)}`);
      this.#say(stderr.colours.dim(`  acp-edge permissions show|allow|deny ${this.#sessionId}`));
      return never();
    }
    this.#view.endLine();
    const announced = this.#toolCalls.get(toolCall.toolCallId);
    const answer = await promptForPermission(request, announced, withdrawn);
    if (answer === INTERRUPTED) this.#interrupt();
    if (answer === INTERRUPTED || answer === DECLINED) return { outcome: { outcome: "cancelled" } };
    return answer === undefined ? never() : { outcome: { outcome: "selected", optionId: answer } };
  }

  /** With nobody at a terminal a question waits for other clients, or is declined if permissions are decided in advance. */
  async #question(
    request: CreateElicitationRequest,
    withdrawn: AbortSignal,
  ): Promise<CreateElicitationResponse> {
    this.#emit({ type: "question", sessionId: this.#sessionId, question: request });
    const question = askedIn(request);
    const shown = isolate(visibleLine(question.message, 4096));
    if (this.#policy === "wait") {
      this.#say(`waiting for an answer: ${shown}`);
      this.#say(stderr.colours.dim(`  acp-edge questions show|answer ${this.#sessionId}`));
      return never();
    }
    if (!this.#hasPerson) {
      this.#say(stderr.colours.dim(`question: ${shown}: declined`));
      return { action: "decline" };
    }
    this.#view.endLine();
    const answer = await promptForAnswer(question, withdrawn);
    if (answer === INTERRUPTED) this.#interrupt();
    if (answer === INTERRUPTED) return { action: "cancel" };
    return answer === undefined ? never() : (answer as CreateElicitationResponse);
  }

  #ended(stopReason: StopReason): ExitCode {
    this.#emit({ type: "end", sessionId: this.#sessionId, stopReason });
    const { dim, red } = stderr.colours;
    if (stopReason !== "end_turn")
      this.#say(red(STOPS[stopReason] ?? `the turn ended: ${brief(stopReason)}`));
    if (stderr.isTTY && !this.#options.quiet) this.#say(dim(`session ${this.#sessionId}`));
    if (stopReason === "end_turn") return EXIT.ok;
    return stopReason === "cancelled" && this.#interrupted ? EXIT.interrupted : EXIT.turn;
  }

  #failure(error: unknown, lost: boolean): unknown {
    if (lost && this.#prompted) {
      const { message, code = EXIT.unreachable } = error as Partial<CliError>;
      const hint = `the turn continues: acp-edge sessions watch ${this.#sessionId}`;
      return new CliError(`${message}; ${hint}`, code, { cause: error });
    }
    if (error instanceof CliError) return error;
    if (!(error instanceof RequestError)) return error;
    this.#emit({
      type: "error",
      sessionId: this.#sessionId || null,
      error: { code: error.code, message: error.message },
    });
    return new CliError(`the turn failed: ${brief(error.message, 500)}`, exitCodeForRpc(error.code));
  }

  #say(text: string): void {
    if (this.#options.json) printNote(text);
    else this.#view.note(text);
  }

  #emit(event: object): void {
    if (this.#options.json) printJson(event);
  }
}

const STOPS: Partial<Record<StopReason, string>> = {
  refusal: "the agent refused",
  cancelled: "cancelled",
  max_tokens: "stopped: the token limit was reached",
  max_turn_requests: "stopped: the limit of requests per turn was reached",
};

function askedIn(request: CreateElicitationRequest): AskedQuestion {
  const { message, mode, requestedSchema, url } = request as Record<string, unknown>;
  return {
    mode: mode === "url" ? "url" : "form",
    message: String(message),
    requestedSchema,
    url: typeof url === "string" ? url : null,
  };
}

function shownTitle({ title, toolCallId }: RequestPermissionRequest["toolCall"]): string {
  return isolate(visibleLine(title ?? toolCallId, 4096));
}

function never(): Promise<never> {
  return new Promise(() => {});
}
