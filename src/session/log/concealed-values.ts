import { type Frame, mustReadFrame } from "../../protocol/frame.ts";
import { conceal, hasMcpServers, reveal } from "../../protocol/mcp-credentials.ts";

/**
 * What clients gave the agent's MCP servers for their eyes only. It is in the session's storage, but in no log,
 * and nothing reads it but the line to the agent.
 */
export class ConcealedValues {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** A client's frame as the log may have it. */
  conceal(frame: Frame): Frame {
    if (!hasMcpServers(frame.value)) return frame;
    const { raw, values } = conceal(frame.raw, () => crypto.randomUUID());
    // What the gateway answers itself no agent will ever see.
    if (!ANSWERED_HERE.has(frame.method ?? "")) this.#keep(values);
    return mustReadFrame(raw);
  }

  /** A line for the agent, with all it needs. */
  reveal(line: string): string {
    return reveal(line, (reference) => this.#find(reference));
  }

  #keep(values: Record<string, string>): void {
    const entries = Object.entries(values);
    if (entries.length === 0) return;
    for (const [reference, value] of entries)
      this.#sql.exec("INSERT INTO concealed_value (reference, value) VALUES (?, ?)", reference, value);
  }

  #find(reference: string): string | undefined {
    const [row] = this.#sql
      .exec<{ value: string }>("SELECT value FROM concealed_value WHERE reference = ?", reference)
      .toArray();
    return row?.value;
  }
}

const ANSWERED_HERE: ReadonlySet<string> = new Set(["session/load", "session/resume"]);
