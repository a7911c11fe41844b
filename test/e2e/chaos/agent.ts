/**
 * A small scripted agent that keeps its own journal on disk: every line that it reads or writes is in the journal before
 * the agent acts on it. A prompt is a script in JSON.
 *
 * Usage: node agent.ts JOURNALS HOST
 */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { JournalLine, Script } from "./journal.ts";

type Message = {
  id?: number | string;
  method?: string;
  params?: { prompt?: { text: string }[]; sessionId?: string };
  result?: unknown;
};

const [, , directory = ".", host = ""] = process.argv;
const file = join(directory, `${host}-${process.pid}-${Date.now()}.ndjson`);
const answers = new Map<string, () => void>();
let asked = 0;

function note(entry: JournalLine): void {
  appendFileSync(file, `${JSON.stringify(entry)}\n`);
}

function send(message: object): void {
  const text = JSON.stringify({ jsonrpc: "2.0", ...message });
  note({ d: "out", text });
  process.stdout.write(`${text}\n`);
}

async function runPrompt({ id, params }: Message): Promise<void> {
  const sessionId = params?.sessionId ?? "";
  const { mark, count, everyMs, size, ask } = JSON.parse(params?.prompt?.[0]?.text ?? "{}") as Script;
  for (let n = 0; n < count; n += 1) {
    if (n === ask) await askPermission(sessionId, mark);
    const text = `${mark}#${n} `.padEnd(size, ".");
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
    send({ method: "session/update", params: { sessionId, update } });
    if (everyMs > 0) await sleep(everyMs);
  }
  send({ id, result: { stopReason: "end_turn" } });
}

function askPermission(sessionId: string, mark: string): Promise<void> {
  asked += 1;
  const id = `ask-${asked}`;
  const { promise, resolve } = Promise.withResolvers<void>();
  answers.set(id, resolve);
  const options = ["yes", "no", "perhaps"].map((optionId) => ({
    optionId,
    name: optionId,
    kind: "allow_once",
  }));
  const toolCall = { toolCallId: mark, title: mark };
  send({ id, method: "session/request_permission", params: { sessionId, toolCall, options } });
  return promise;
}

note({ d: "start", pid: process.pid, host });
for await (const text of createInterface({ input: process.stdin })) {
  note({ d: "in", text });
  const message = JSON.parse(text) as Message;
  switch (message.method) {
    case "initialize":
      send({ id: message.id, result: { protocolVersion: 1, agentCapabilities: { loadSession: true } } });
      break;
    case "session/new":
      send({ id: message.id, result: { sessionId: `own-${process.pid}-${Date.now()}` } });
      break;
    case "session/load":
      send({ id: message.id, result: {} });
      break;
    case "session/prompt":
      void runPrompt(message);
      break;
    case undefined:
      answers.get(String(message.id))?.();
      break;
    default:
      if (message.id !== undefined)
        send({ id: message.id, error: { code: -32601, message: "Method not found" } });
  }
}
process.exit(0);
