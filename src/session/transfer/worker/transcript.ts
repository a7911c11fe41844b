import { contentBlock, inline, type Json, list, plan, record, text, toolCall } from "./markdown-blocks.ts";

/**
 * A session as a person would want to read it. Takes envelopes one by one and gives the Markdown each of
 * them adds, so that it holds no more than what is still open: tool calls until they end, the plan until
 * the turn does, prompts until their turn comes.
 */
export class Transcript {
  readonly #session: Json;
  #out = "";
  #section: "user" | "agent" | null = null;
  /** The message that is being written, piece by piece. */
  #block: { kind: string; messageId: unknown } | null = null;
  /** Prompts that wait in the queue, and those whose answer is still to come. */
  readonly #held = new Map<unknown, Json>();
  readonly #running = new Map<unknown, unknown>();
  readonly #tools = new Map<unknown, Json>();
  readonly #toolsDone = new Set<unknown>();
  readonly #permissions = new Map<unknown, Json>();
  #plan: readonly unknown[] | null = null;

  constructor(session: Json) {
    this.#session = session;
  }

  start(): string {
    const { title, acpxRecordId } = this.#session;
    const agent = record(this.#session.agent);
    const workspace = record(this.#session.workspace);
    const lifecycle = record(this.#session.lifecycle);
    const facts = [
      ["Session", acpxRecordId],
      ["Agent", agent.name ?? agent.command],
      [
        "Workspace",
        [workspace.name, workspace.cwd]
          .map(inline)
          .filter((part) => part !== "")
          .join(", "),
      ],
      ["Created", lifecycle.createdAt],
      ["Last used", lifecycle.lastUsedAt],
    ].filter(([, value]) => inline(value) !== "");
    const lines = facts.map(([name, value]) => `- ${name}: ${inline(value)}`);
    return `# ${inline(title) || `Session ${inline(acpxRecordId)}`}\n\n${lines.join("\n")}\n`;
  }

  push(event: Json): string {
    const payload = record(event.payload);
    if (event.kind === "acp.frame") this.#frame(event, payload);
    else this.#note(event.kind, payload);
    return this.#take();
  }

  end(): string {
    this.#endTurn();
    for (const request of this.#permissions.values()) this.#permission(request, "not answered");
    for (const prompt of this.#held.values()) {
      this.#user(prompt);
      this.#paragraph("*Still in the queue.*");
    }
    this.#close();
    return this.#take();
  }

  #take(): string {
    const out = this.#out;
    this.#out = "";
    return out;
  }

  // ---- what happened ----------------------------------------------------------------------------------

  #frame({ seq }: Json, payload: Json): void {
    const message = record(payload.message);
    const params = record(message.params);
    if (payload.direction === "out") {
      if (message.method === "session/prompt") this.#prompt(seq, payload, message);
      else if (message.method === undefined) this.#answered(payload, message);
      return;
    }
    if (payload.stop === "replay" || payload.stop === "duplicate") return;
    if (message.method === "session/update") this.#update(record(params.update));
    else if (message.method === "session/request_permission")
      this.#permissions.set(seq, { ...params, id: message.id });
    else if (message.method === undefined) this.#promptAnswered(payload, message);
  }

  #prompt(seq: unknown, { stop }: Json, message: Json): void {
    if (stop === "gateway") return;
    this.#running.set(seq, message.id);
    if (stop === "held") this.#held.set(seq, record(message.params));
    else this.#user(record(message.params));
  }

  #promptAnswered({ re }: Json, { id, result, error }: Json): void {
    const prompt = re ?? [...this.#running].find(([, promptId]) => promptId === id)?.[0];
    this.#turnOver(
      prompt,
      error === undefined
        ? `*Turn ended: ${inline(record(result).stopReason) || "no reason given"}.*`
        : `> **Turn failed**: ${inline(record(error).message)}`,
    );
  }

  /** A client answered a request of the agent's; only permissions are worth telling. */
  #answered({ re }: Json, { id, result }: Json): void {
    const key = re ?? [...this.#permissions].find(([, request]) => request.id === id)?.[0];
    const request = this.#permissions.get(key);
    if (!request) return;
    this.#permissions.delete(key);
    const { outcome, optionId } = record(record(result).outcome);
    const option = list(request.options)
      .map(record)
      .find((candidate) => candidate.optionId === optionId);
    const chosen = option ? `${inline(option.name) || inline(optionId)} (${inline(option.kind)})` : "";
    this.#permission(request, chosen || inline(optionId) || inline(outcome) || "refused");
  }

  #note(kind: unknown, payload: Json): void {
    const { turnId, prompt, synthetic, textPreview } = payload;
    const isPreview = synthetic === true && text(textPreview) !== "";
    switch (kind) {
      case "turn.started": {
        const held = this.#held.get(prompt);
        this.#held.delete(prompt);
        if (held) this.#user(held);
        if (isPreview) this.#user({ prompt: [{ type: "text", text: preview(textPreview) }] });
        return;
      }
      case "turn.completed":
        if (isPreview)
          this.#chunk("agent_message_chunk", { type: "text", text: preview(textPreview) }, turnId);
        return this.#turnOver(prompt, `*Turn ended: ${inline(payload.stopReason)}.*`);
      case "turn.cancelled":
        return this.#turnOver(prompt, "*Turn ended: cancelled.*");
      case "turn.failed":
        return this.#turnOver(
          prompt,
          `> **Turn failed**: ${inline(record(payload.error).message) || inline(payload.reason)}`,
        );
      case "error":
        return this.#paragraph(`> **Error**: ${inline(payload.message)}`);
      case "session.rebound":
        return this.#paragraph("> The agent was started again with a new session of its own.");
      case "session.imported":
        return this.#paragraph(`> Imported; the session was ${inline(record(payload.from).acpxRecordId)}.`);
      case "session.closed":
        return this.#paragraph("> The session was closed.");
    }
  }

  /** The end of a turn, told once: by the answer to its prompt, or else by the note that it is over. */
  #turnOver(prompt: unknown, line: string): void {
    if (!this.#running.delete(prompt)) return;
    const held = this.#held.get(prompt);
    this.#held.delete(prompt);
    // One that never left the queue ends nothing but itself.
    if (held) this.#user(held);
    else this.#endTurn();
    this.#paragraph(line);
    this.#section = null;
  }

  #update(update: Json): void {
    switch (update.sessionUpdate) {
      case "user_message_chunk":
      case "agent_message_chunk":
      case "agent_thought_chunk":
        return this.#chunk(update.sessionUpdate, update.content, update.messageId);
      case "tool_call":
      case "tool_call_update":
        return this.#tool(update);
      case "plan":
        this.#plan = list(update.entries);
        return;
      case "current_mode_update":
        return this.#paragraph(`*Mode: ${inline(update.currentModeId)}*`);
    }
  }

  /** Updates are sparse: what one does not say stays as it was. */
  #tool(update: Json): void {
    const id = update.toolCallId;
    if (this.#toolsDone.has(id)) return;
    const said = Object.fromEntries(Object.entries(update).filter(([, value]) => value != null));
    const call = { ...this.#tools.get(id), ...said };
    this.#tools.set(id, call);
    if (call.status === "completed" || call.status === "failed") this.#toolOver(id, call);
  }

  #toolOver(id: unknown, call: Json): void {
    this.#tools.delete(id);
    this.#toolsDone.add(id);
    this.#enter("agent");
    this.#paragraph(toolCall(call));
  }

  #endTurn(): void {
    for (const [id, call] of this.#tools) this.#toolOver(id, call);
    this.#toolsDone.clear();
    if (this.#plan && this.#plan.length > 0) this.#paragraph(plan(this.#plan));
    this.#plan = null;
  }

  // ---- writing ----------------------------------------------------------------------------------------

  #user(params: Json): void {
    this.#enter("user");
    for (const block of list(params.prompt)) this.#paragraph(contentBlock(block));
  }

  #permission(request: Json, decision: string): void {
    const { title, toolCallId } = record(request.toolCall);
    const known = inline(title) || inline(this.#tools.get(toolCallId)?.title) || inline(toolCallId);
    this.#paragraph(`> **Permission** for ${known || "a tool call"}: ${decision}`);
  }

  /** A piece of a message. Text goes on where the last piece of the same message ended. */
  #chunk(kind: string, content: unknown, messageId: unknown): void {
    this.#enter(kind === "user_message_chunk" ? "user" : "agent");
    const isSame = this.#block?.kind === kind && this.#block.messageId === messageId;
    if (!isSame) {
      this.#close();
      this.#out += kind === THOUGHT ? "\n<details><summary>Thought</summary>\n\n" : "\n";
      this.#block = { kind, messageId };
    }
    const block = record(content);
    if (block.type === "text") this.#out += text(block.text);
    else this.#out += `\n\n${contentBlock(block)}\n\n`;
  }

  #paragraph(body: string): void {
    this.#close();
    this.#out += `\n${body}\n`;
  }

  #enter(section: "user" | "agent"): void {
    if (this.#section === section) return;
    this.#close();
    this.#section = section;
    this.#out += section === "user" ? "\n## User\n" : "\n## Agent\n";
  }

  #close(): void {
    if (this.#block) this.#out += this.#block.kind === THOUGHT ? "\n\n</details>\n" : "\n";
    this.#block = null;
  }
}

const THOUGHT = "agent_thought_chunk";

function preview(value: unknown): string {
  return `${text(value)} *(preview)*`;
}
