/** Commands for every way in which a turn can end or fail to end. */
import { RequestError } from "@agentclientprotocol/sdk";
import { type Command, type DemoTurn, firstWord } from "../demo-turn.ts";

export const endingCommands: Command[] = [
  { name: "refuse", description: "End with refusal", run: (turn) => turn.end("refusal") },
  { name: "max_tokens", description: "End with max_tokens", run: (turn) => turn.end("max_tokens") },
  {
    name: "max_turn_requests",
    description: "End with max_turn_requests",
    run: (turn) => turn.end("max_turn_requests"),
  },
  {
    name: "error",
    hint: "[CODE] [MESSAGE]",
    description: "Answer the prompt with a JSON-RPC error",
    run: fail,
  },
  {
    name: "wait",
    description: "Do nothing until cancelled",
    run: (turn) => {
      turn.say("Waiting to be cancelled.\n");
      return turn.orCancelled(new Promise<never>(() => {}));
    },
  },
  {
    name: "hang",
    description: "Never answer, cancelled or not",
    run: (turn) => {
      turn.say("Hanging.\n");
      return new Promise<never>(() => {});
    },
  },
  {
    name: "crash",
    hint: "[EXIT_CODE]",
    description: "End the process during the turn",
    run: crash,
  },
];

function fail(_turn: DemoTurn, args: string): never {
  const [word, rest] = firstWord(args);
  const code = /^-?\d+$/.test(word) ? Number(word) : undefined;
  const message = code === undefined ? args : rest;
  throw new RequestError(code ?? -32603, message || "Demo error", { demo: true });
}

async function crash(turn: DemoTurn, code: string): Promise<void> {
  turn.say("Crashing.\n");
  // The message before the crash must arrive, so that a test can distinguish it from lost output.
  await turn.out.flushed();
  process.exit(Number(code || 1));
}
