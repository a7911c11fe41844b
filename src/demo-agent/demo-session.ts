import type { ContentBlock, SessionUpdate } from "@agentclientprotocol/sdk";
import type { Output } from "./output.ts";
import type { SessionRecord, SessionStore } from "./session-store.ts";
import { DEMO_MODES } from "./settings.ts";

/** Updates that are not part of the history that a load replays. */
const LIVE_ONLY = new Set<SessionUpdate["sessionUpdate"]>(["notice", "available_commands_update"]);

/** One session of the demo agent: sends updates, and remembers them if there is a store. */
export class DemoSession {
  readonly record: SessionRecord;
  /** The client's names of the MCP servers, for `/mcp`. */
  mcpServers: string[] = [];
  /** Present while a prompt runs; `session/cancel` aborts it. */
  turn: AbortController | undefined;

  readonly #out: Output;
  readonly #store: SessionStore | undefined;
  readonly #head: string;

  constructor(record: SessionRecord, out: Output, store: SessionStore | undefined) {
    this.record = record;
    this.#out = out;
    this.#store = store;
    const sessionId = JSON.stringify(record.sessionId);
    this.#head = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":${sessionId},"update":`;
  }

  static newRecord(cwd: string): SessionRecord {
    return {
      sessionId: `demo-${crypto.randomUUID()}`,
      cwd,
      title: null,
      updatedAt: new Date().toISOString(),
      modeId: DEMO_MODES[0]!.id,
      config: {},
      prompts: 0,
    };
  }

  get id(): string {
    return this.record.sessionId;
  }

  /** The line of one update. The update is JSON text, so that the caller controls every byte. */
  line(update: string): string {
    return `${this.#head}${update}}}\n`;
  }

  send(update: SessionUpdate): void {
    const line = this.line(JSON.stringify(update));
    if (LIVE_ONLY.has(update.sessionUpdate)) this.#out.write(line);
    else this.sendLines(line);
  }

  /** Sends whole `session/update` lines unchanged and remembers them. */
  sendLines(lines: string): void {
    this.#out.write(lines);
    this.remember(lines);
  }

  /** Remembers lines that reach the client in another way. */
  remember(lines: string): void {
    this.#store?.append(this.id, lines);
  }

  beginPrompt(prompt: ContentBlock[]): void {
    this.record.prompts += 1;
    this.change({});
    const lines = prompt.map((content) =>
      this.line(JSON.stringify({ sessionUpdate: "user_message_chunk", content })),
    );
    this.remember(lines.join(""));
  }

  change(changes: Partial<SessionRecord>): void {
    Object.assign(this.record, changes, { updatedAt: new Date().toISOString() });
    this.#store?.save(this.record);
  }

  replay(): Promise<void> | undefined {
    return this.#store?.replay(this.id, this.#out);
  }
}
