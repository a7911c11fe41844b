import { type ContentBlock, RequestError, type StopReason } from "@agentclientprotocol/sdk";
import { findCommand } from "./commands.ts";
import { type DemoTurn, firstWord } from "./demo-turn.ts";

/** Runs the commands of the prompt, or gives a short answer if the prompt does not start with a command. */
export async function playPrompt(turn: DemoTurn, withdrawn: AbortSignal): Promise<StopReason> {
  try {
    await playLines(turn, firstText(turn.prompt));
    return turn.stopReason ?? "end_turn";
  } catch (error) {
    if (!turn.signal.aborted) throw error;
    if (withdrawn.aborted) throw RequestError.requestCancelled();
    return "cancelled";
  }
}

async function playLines(turn: DemoTurn, text: string): Promise<void> {
  if (!text.startsWith("/")) {
    answer(turn, text);
    return;
  }
  for (const line of text.split(/\r?\n/)) {
    if (!line.startsWith("/")) {
      if (line.trim()) answer(turn, line);
      continue;
    }
    const [name, args] = firstWord(line.slice(1).trimEnd());
    const command = findCommand(name);
    if (!command) {
      turn.say(`There is no command /${name}. Try /help.\n`);
      continue;
    }
    const missing = command.lacks?.(turn.peer.capabilities, args);
    if (missing) turn.say(`The client has no ${missing} capability.\n`);
    else await command.run(turn, args);
    turn.signal.throwIfAborted();
    if (turn.stopReason) return;
  }
}

function answer(turn: DemoTurn, text: string): void {
  const others = turn.prompt.filter((block) => block.type !== "text").map((block) => block.type);
  const messageId = `msg_${turn.session.record.prompts}`;
  const pieces = [
    "You said: ",
    text || "nothing",
    others.length > 0 ? ` (with ${others.join(", ")})` : "",
    "\n\n",
    "I am the demo agent: no model, only a script. ",
    "Send /help to see what I can do.\n",
  ];
  for (const piece of pieces.filter(Boolean)) {
    turn.update({ sessionUpdate: "agent_message_chunk", messageId, content: { type: "text", text: piece } });
  }
}

function firstText(prompt: ContentBlock[]): string {
  return prompt.find((block) => block.type === "text")?.text ?? "";
}
