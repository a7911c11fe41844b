import type { ContentBlock, SessionUpdate } from "@agentclientprotocol/sdk";
import type { Terminal } from "../terminal.ts";
import { brief, printable } from "../text-format.ts";

/** Prints a conversation for a person: the agent's messages as text, each of its actions as a line. */
export class Conversation {
  readonly #text: Terminal;
  readonly #notes: Terminal;
  /** Titles of tool calls, because updates do not repeat them. */
  readonly #titles = new Map<string, string>();
  /** The terminal whose last line is unfinished. */
  #open: Terminal | undefined;

  constructor(text: Terminal, notes: Terminal) {
    this.#text = text;
    this.#notes = notes;
  }

  /** An update that violates the protocol is not shown. */
  update(update: SessionUpdate): void {
    try {
      this.#show(update);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }

  #show(update: SessionUpdate): void {
    const { dim } = this.#notes.colours;
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        return this.#say(this.#text, contentText(update.content), (text) => text);
      case "agent_thought_chunk":
        return this.#say(this.#notes, contentText(update.content), dim);
      case "tool_call":
        this.#titles.set(update.toolCallId, update.title);
        this.note(`${this.#notes.colours.cyan("●")} ${brief(update.title, 100)}`);
        return this.#ended(update.toolCallId, update.status);
      case "tool_call_update":
        if (update.title) this.#titles.set(update.toolCallId, update.title);
        return this.#ended(update.toolCallId, update.status);
      case "plan":
        for (const { content, status } of update.entries)
          this.note(dim(`${MARKS[status]} ${brief(content, 100)}`));
        return;
      case "current_mode_update":
        return this.note(dim(`mode: ${brief(update.currentModeId)}`));
      default:
        return;
    }
  }

  /** Prints the user's prompt. */
  prompt(text: string): void {
    this.note(`${this.#notes.colours.bold(">")} ${printable(text)}`);
  }

  note(text: string): void {
    this.endLine();
    this.#notes.stream.write(`${text}\n`);
  }

  /** Ends an unfinished line. */
  endLine(): void {
    this.#open?.stream.write("\n");
    this.#open = undefined;
  }

  #ended(toolCallId: string, status: string | null | undefined): void {
    if (status !== "completed" && status !== "failed") return;
    const { green, red, dim } = this.#notes.colours;
    const title = brief(this.#titles.get(toolCallId) ?? toolCallId, 100);
    this.#titles.delete(toolCallId);
    this.note(status === "completed" ? `  ${green("✓")} ${dim(title)}` : `  ${red("✗")} ${title}`);
  }

  #say(to: Terminal, words: string, style: (text: string) => string): void {
    const text = to.isTTY ? printable(words) : words;
    if (text === "") return;
    if (this.#open !== to) this.endLine();
    to.stream.write(style(text));
    this.#open = text.endsWith("\n") ? undefined : to;
  }
}

const MARKS = { pending: "☐", in_progress: "▶", completed: "☑" };

/** A content block as text. A block that is not text is shown by its type. */
export function contentText(content: ContentBlock): string {
  switch (content.type) {
    case "text":
      return content.text;
    case "resource_link":
      return `[${content.title ?? content.name}](${content.uri})`;
    case "resource":
      return "text" in content.resource ? content.resource.text : `[${content.resource.uri}]`;
    default:
      return `[${content.type} ${content.mimeType}]`;
  }
}
