/** The journals that the agents keep, and what they say. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A prompt to the scripted agent: `count` updates that carry the mark, and a permission request before update `ask`. */
export type Script = { mark: string; count: number; everyMs: number; size: number; ask?: number };

export type JournalLine = { d: "start"; pid: number; host: string } | { d: "in" | "out"; text: string };

/** One agent process, as its own journal tells it. */
export type AgentJournal = {
  pid: number;
  /** The host that started the process, with the number of that host's start. */
  host: string;
  /** The marks of the prompts that the process was given. */
  prompts: string[];
  /** The updates that the process wrote, as `mark#n`. */
  updates: string[];
  /** The prompts that the process has answered. */
  ended: string[];
  /** The permission requests of the process by mark, each with the answers that the process got. */
  permissions: Map<string, unknown[]>;
};

export function readJournals(directory: string): AgentJournal[] {
  return readdirSync(directory).map((name) => readJournal(readFileSync(join(directory, name), "utf8")));
}

/** The last line may be cut short: its process was killed. */
function readJournal(text: string): AgentJournal {
  const journal: AgentJournal = {
    pid: 0,
    host: "",
    prompts: [],
    updates: [],
    ended: [],
    permissions: new Map(),
  };
  const prompts = new Map<unknown, string>();
  const asked = new Map<unknown, string>();
  for (const line of text.split("\n").slice(0, -1)) {
    const entry = JSON.parse(line) as JournalLine;
    if (entry.d === "start") {
      journal.pid = entry.pid;
      journal.host = entry.host;
      continue;
    }
    const { id, method, params, result } = JSON.parse(entry.text);
    if (entry.d === "in" && method === "session/prompt") {
      const { mark } = JSON.parse(params.prompt[0].text) as Script;
      prompts.set(id, mark);
      journal.prompts.push(mark);
    } else if (entry.d === "in" && method === undefined) {
      journal.permissions.get(asked.get(id) ?? "")?.push(result?.outcome);
    } else if (entry.d === "out" && method === "session/update") {
      journal.updates.push(tokenOf(params.update) ?? "");
    } else if (entry.d === "out" && method === "session/request_permission") {
      asked.set(id, params.toolCall.toolCallId);
      journal.permissions.set(params.toolCall.toolCallId, []);
    } else if (entry.d === "out" && prompts.has(id)) {
      journal.ended.push(prompts.get(id) as string);
    }
  }
  return journal;
}

/** The name of an update of the scripted agent, `mark#n`; undefined for every other update. */
export function tokenOf(update: unknown): string | undefined {
  const { sessionUpdate, content } = (update ?? {}) as {
    sessionUpdate?: string;
    content?: { text?: string };
  };
  if (sessionUpdate !== "agent_message_chunk") return undefined;
  return /^(\S+#\d+) /.exec(content?.text ?? "")?.[1];
}

export function markOf(token: string): string {
  return token.slice(0, token.lastIndexOf("#"));
}
