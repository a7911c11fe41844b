import { recordOf } from "../../../protocol/json-value.ts";
import { type FactKind, isFactKind } from "../../core/events/catalogue.ts";
import { contentBlock, inline, type Json, list, plan, text, toolCall } from "./markdown-blocks.ts";
import { MarkdownPage } from "./markdown-page.ts";

/**
 * A session in Markdown, for people to read. `push` takes the envelopes of the log one by one and returns the Markdown
 * that each adds. The transcript remembers only what is still open: queued prompts, running turns, tool calls that have
 * not ended, permissions and questions without an answer, and the plan of the turn.
 */
export class Transcript {
  readonly #session: Json;
  readonly #page = new MarkdownPage();
  /** Parameters of queued prompts, by the prompt's event. */
  readonly #queued = new Map<unknown, Json>();
  /** Request ids of prompts without an answer, by the prompt's event. */
  readonly #running = new Map<unknown, unknown>();
  /** Parameters and request ids of permission requests without an answer, by the request's event. */
  readonly #permissions = new Map<unknown, Json>();
  /** Parameters and request ids of questions without an answer, by the request's event. */
  readonly #questions = new Map<unknown, Json>();
  readonly #toolCalls = new Map<unknown, Json>();
  readonly #endedToolCalls = new Set<unknown>();
  #plan: readonly unknown[] | null = null;

  /** `session` is the projection of the session. */
  constructor(session: Json) {
    this.#session = session;
  }

  /** The title and the facts about the session. */
  start(): string {
    const { title, acpxRecordId } = this.#session;
    const agent = recordOf(this.#session.agent);
    const workspace = recordOf(this.#session.workspace);
    const lifecycle = recordOf(this.#session.lifecycle);
    const place = [workspace.name, workspace.cwd].map(inline).filter((part) => part !== "");
    const lines = [
      ["Session", acpxRecordId],
      ["Agent", agent.name ?? agent.command],
      ["Workspace", place.join(", ")],
      ["Created", lifecycle.createdAt],
      ["Last used", lifecycle.lastUsedAt],
    ]
      .filter(([, value]) => inline(value) !== "")
      .map(([name, value]) => `- ${name}: ${inline(value)}`);
    return `# ${inline(title) || `Session ${inline(acpxRecordId)}`}\n\n${lines.join("\n")}\n`;
  }

  push(event: Json): string {
    const payload = recordOf(event.payload);
    if (event.kind === "acp.frame") this.#frame(event.seq, payload);
    else if (isFactKind(event.kind)) this.#fact(event.kind, payload);
    return this.#page.take();
  }

  /** Everything that is still open. */
  end(): string {
    this.#endTurn();
    for (const request of this.#permissions.values()) this.#permission(request, "not answered");
    for (const request of this.#questions.values()) this.#question(request, "not answered");
    for (const prompt of this.#queued.values()) {
      this.#prompt(prompt);
      this.#page.paragraph("*Still in the queue.*");
    }
    this.#page.endMessage();
    return this.#page.take();
  }

  // ---- frames -----------------------------------------------------------------------------------------

  #frame(seq: unknown, payload: Json): void {
    const message = recordOf(payload.message);
    if (payload.direction === "out") this.#frameFromClient(seq, payload, message);
    else if (payload.stop !== "replay" && payload.stop !== "duplicate" && payload.having === undefined)
      this.#frameFromAgent(seq, payload, message);
  }

  #frameFromClient(seq: unknown, { stop, re }: Json, message: Json): void {
    if (message.method === undefined) {
      this.#questionAnswered(re, stop, message);
      return this.#permissionAnswered(re, message);
    }
    // The gateway has answered a prompt with the stop `gateway` itself, so no turn follows.
    if (message.method !== "session/prompt" || stop === "gateway") return;
    this.#running.set(seq, message.id);
    if (stop === "held") this.#queued.set(seq, recordOf(message.params));
    else this.#prompt(recordOf(message.params));
  }

  #frameFromAgent(seq: unknown, { re, plain }: Json, message: Json): void {
    const params = recordOf(message.params);
    const update = recordOf(params.update);
    // The frame before this one has the content, with text in place of terminals.
    if (message.method === "session/update")
      this.#update(plain === "before" ? { ...update, content: null } : update);
    else if (message.method === "session/request_permission")
      this.#permissions.set(seq, { ...params, id: message.id });
    else if (message.method === "elicitation/create") this.#questions.set(seq, { ...params, id: message.id });
    else if (message.method === undefined) this.#promptAnswered(re, message);
  }

  #promptAnswered(re: unknown, { id, result, error }: Json): void {
    const prompt = re ?? [...this.#running].find(([, promptId]) => promptId === id)?.[0];
    this.#turnEnded(
      prompt,
      error === undefined
        ? `*Turn ended: ${inline(recordOf(result).stopReason) || "no reason given"}.*`
        : `> **Turn failed**: ${inline(recordOf(error).message)}`,
    );
  }

  /** A client answered a request of the agent. Answers to other requests than permissions are not shown. */
  #permissionAnswered(re: unknown, { id, result }: Json): void {
    const key = re ?? [...this.#permissions].find(([, request]) => request.id === id)?.[0];
    const request = this.#permissions.get(key);
    if (!request) return;
    this.#permissions.delete(key);
    const { outcome, optionId } = recordOf(recordOf(result).outcome);
    const option = list(request.options)
      .map(recordOf)
      .find((candidate) => candidate.optionId === optionId);
    const chosen = option ? `${inline(option.name) || inline(optionId)} (${inline(option.kind)})` : "";
    this.#permission(request, chosen || inline(optionId) || inline(outcome) || "refused");
  }

  /** An answer with a stop did not count, and the question goes on waiting. */
  #questionAnswered(re: unknown, stop: unknown, { id, result }: Json): void {
    const key = re ?? [...this.#questions].find(([, request]) => request.id === id)?.[0];
    const request = this.#questions.get(key);
    if (!request || stop !== undefined) return;
    this.#questions.delete(key);
    this.#question(request, inline(recordOf(result).action) || "no answer");
  }

  #update(update: Json): void {
    switch (update.sessionUpdate) {
      case "user_message_chunk":
      case "agent_message_chunk":
      case "agent_thought_chunk":
        return this.#page.chunk(update.sessionUpdate, update.content, update.messageId);
      case "tool_call":
      case "tool_call_update":
        return this.#toolCallUpdate(update);
      case "plan":
        this.#plan = list(update.entries);
        return;
      case "current_mode_update":
        return this.#page.paragraph(`*Mode: ${inline(update.currentModeId)}*`);
    }
  }

  /** Updates are sparse: a field that an update lacks keeps its value. */
  #toolCallUpdate(update: Json): void {
    const id = update.toolCallId;
    if (this.#endedToolCalls.has(id)) return;
    const present = Object.fromEntries(Object.entries(update).filter(([, value]) => value != null));
    const call = { ...this.#toolCalls.get(id), ...present };
    this.#toolCalls.set(id, call);
    if (call.status === "completed" || call.status === "failed") this.#endToolCall(id, call);
  }

  // ---- facts ------------------------------------------------------------------------------------------

  /** Most facts leave no trace in the conversation. */
  #fact(kind: FactKind, payload: Json): void {
    const { turnId, prompt } = payload;
    switch (kind) {
      case "turn.started":
        return this.#turnStarted(prompt, previewIn(payload));
      case "turn.completed": {
        const preview = previewIn(payload);
        if (preview) this.#page.chunk("agent_message_chunk", preview, turnId);
        return this.#turnEnded(prompt, `*Turn ended: ${inline(payload.stopReason)}.*`);
      }
      case "turn.cancelled":
        return this.#turnEnded(prompt, "*Turn ended: cancelled.*");
      case "turn.failed": {
        const reason = inline(recordOf(payload.error).message) || inline(payload.reason);
        return this.#turnEnded(prompt, `> **Turn failed**: ${reason}`);
      }
      case "error":
        return this.#page.paragraph(`> **Error**: ${inline(payload.message)}`);
      case "session.rebound":
        return this.#page.paragraph("> The agent was started again with a new session of its own.");
      case "session.imported": {
        const { acpxRecordId } = recordOf(payload.from);
        return this.#page.paragraph(`> Imported; the session was ${inline(acpxRecordId)}.`);
      }
      case "session.closed":
        return this.#page.paragraph("> The session was closed.");
    }
  }

  #turnStarted(prompt: unknown, preview: Json | null): void {
    const queued = this.#queued.get(prompt);
    this.#queued.delete(prompt);
    if (queued) this.#prompt(queued);
    if (preview) this.#prompt({ prompt: [preview] });
  }

  /** Writes the end of a turn once: at the answer to its prompt, or else at the fact that the turn has ended. */
  #turnEnded(prompt: unknown, line: string): void {
    if (!this.#running.delete(prompt)) return;
    // A prompt that never left the queue is not part of the conversation, and leaves the running turn as it is.
    if (this.#queued.delete(prompt)) return;
    this.#endTurn();
    this.#page.paragraph(line);
    this.#page.leave();
  }

  // ---- writing ----------------------------------------------------------------------------------------

  #prompt(params: Json): void {
    this.#page.enter("user");
    for (const block of list(params.prompt)) this.#page.paragraph(contentBlock(block));
  }

  #permission(request: Json, decision: string): void {
    const { title, toolCallId } = recordOf(request.toolCall);
    const known = inline(title) || inline(this.#toolCalls.get(toolCallId)?.title) || inline(toolCallId);
    this.#page.paragraph(`> **Permission** for ${known || "a tool call"}: ${decision}`);
  }

  /** The contents of an answer are in no log. */
  #question({ message }: Json, answer: string): void {
    this.#page.paragraph(`> **Question** ${inline(message) || "without a text"}: ${answer}`);
  }

  #endToolCall(id: unknown, call: Json): void {
    this.#toolCalls.delete(id);
    this.#endedToolCalls.add(id);
    this.#page.enter("agent");
    this.#page.paragraph(toolCall(call));
  }

  #endTurn(): void {
    for (const [id, call] of this.#toolCalls) this.#endToolCall(id, call);
    this.#endedToolCalls.clear();
    if (this.#plan && this.#plan.length > 0) this.#page.paragraph(plan(this.#plan));
    this.#plan = null;
  }
}

/** The text of a turn imported from a legacy record, which has the first characters only. */
function previewIn({ synthetic, textPreview }: Json): Json | null {
  const isPreview = synthetic === true && text(textPreview) !== "";
  return isPreview ? { type: "text", text: `${text(textPreview)} *(preview)*` } : null;
}
