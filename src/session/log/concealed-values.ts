import { type Frame, mustReadFrame } from "../../protocol/frame.ts";
import { conceal, hasMcpServers, reveal } from "../../protocol/mcp-credentials.ts";

/**
 * Credentials that clients gave the agent's MCP servers. They stay in the session's storage and out of its log, so no
 * reader of the log sees them. Only the host link puts them back, into lines for the agent.
 */
export class ConcealedValues {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** A client's frame with references in place of credentials, fit for the log. */
  conceal(frame: Frame): Frame {
    if (!hasMcpServers(frame.value)) return frame;
    const { raw, values } = conceal(frame.raw, () => crypto.randomUUID());
    // No agent sees a frame that the gateway answers itself, so its credentials are never needed again.
    if (!ANSWERED_BY_GATEWAY.has(frame.method ?? "")) this.#keep(values);
    return mustReadFrame(raw);
  }

  /** A line for the agent with the credentials put back. */
  reveal(line: string): string {
    return reveal(line, (reference) => this.#find(reference));
  }

  #keep(values: Record<string, string>): void {
    for (const [reference, value] of Object.entries(values))
      this.#sql.exec("INSERT INTO concealed_value (reference, value) VALUES (?, ?)", reference, value);
  }

  #find(reference: string): string | undefined {
    const [row] = this.#sql
      .exec<{ value: string }>("SELECT value FROM concealed_value WHERE reference = ?", reference)
      .toArray();
    return row?.value;
  }
}

const ANSWERED_BY_GATEWAY: ReadonlySet<string> = new Set(["session/load", "session/resume"]);
