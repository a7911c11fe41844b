import { recordOf } from "../../../protocol/json-value.ts";
import { contentBlock, text } from "./markdown-blocks.ts";

export type Section = "user" | "agent";

/** Markdown being written. A message arrives in chunks, and stays open until something else is written. */
export class MarkdownPage {
  #out = "";
  #section: Section | null = null;
  #message: { kind: string; messageId: unknown } | null = null;

  /** The text written since the last call. */
  take(): string {
    const out = this.#out;
    this.#out = "";
    return out;
  }

  /** Writes the heading of a section, unless the page is in that section. */
  enter(section: Section): void {
    if (this.#section === section) return;
    this.endMessage();
    this.#section = section;
    this.#out += section === "user" ? "\n## User\n" : "\n## Agent\n";
  }

  /** Ends the section: the next one gets a heading even if it is of the same kind. */
  leave(): void {
    this.#section = null;
  }

  paragraph(body: string): void {
    this.endMessage();
    this.#out += `\n${body}\n`;
  }

  /** Writes a chunk of a message. Text continues where the previous chunk of that message ended. */
  chunk(kind: string, content: unknown, messageId: unknown): void {
    this.enter(kind === "user_message_chunk" ? "user" : "agent");
    if (this.#message?.kind !== kind || this.#message.messageId !== messageId) {
      this.endMessage();
      this.#out += kind === THOUGHT ? "\n<details><summary>Thought</summary>\n\n" : "\n";
      this.#message = { kind, messageId };
    }
    const block = recordOf(content);
    if (block.type === "text") this.#out += text(block.text);
    else this.#out += `\n\n${contentBlock(block)}\n\n`;
  }

  endMessage(): void {
    if (this.#message) this.#out += this.#message.kind === THOUGHT ? "\n\n</details>\n" : "\n";
    this.#message = null;
  }
}

const THOUGHT = "agent_thought_chunk";
