/** Commands that send text, thoughts and plans. */
import type { PlanEntry } from "@agentclientprotocol/sdk";
import type { Command, DemoTurn } from "../demo-turn.ts";

/** Small enough to notice a cancel quickly, large enough to keep system calls cheap. */
const BATCH_BYTES = 128 * 1024;
const FILLER = "abcdefghijklmnopqrstuvwxyz0123456789";
const TICK_MS = 100;

export const textCommands: Command[] = [
  {
    name: "stream",
    hint: "COUNT SIZE [DELAY_MS]",
    description: "COUNT message chunks of SIZE bytes, numbered 000000, 000001, …",
    run: stream,
  },
  {
    name: "slow",
    hint: "SECONDS",
    description: "A chunk every 100 ms until the time is up",
    run: slow,
  },
  {
    name: "think",
    hint: "[TEXT]",
    description: "A thought",
    run: (turn, text) =>
      turn.update({
        sessionUpdate: "agent_thought_chunk",
        content: { type: "text", text: text || "Thinking about what to do next." },
      }),
  },
  {
    name: "plan",
    description: "A plan whose entries are completed one after another",
    run: plan,
  },
];

async function stream(turn: DemoTurn, args: string): Promise<void> {
  const [count = 10, size = 40, delay = 0] = args.split(/\s+/).filter(Boolean).map(Number);
  const filler = FILLER.repeat(Math.ceil(size / FILLER.length));
  const [before, after] = turn.session
    .line('{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"@"}}')
    .split("@") as [string, string];
  // Each batch is one write. With a delay, each update is a batch.
  const batchBytes = delay > 0 ? 1 : BATCH_BYTES;

  let batch = "";
  for (let index = 0; index < count; index++) {
    const head = `${String(index).padStart(6, "0")} `;
    batch += before + head + filler.slice(0, Math.max(0, size - head.length)) + after;
    if (batch.length < batchBytes && index < count - 1) continue;
    turn.signal.throwIfAborted();
    turn.session.sendLines(batch);
    batch = "";
    if (delay > 0) await turn.sleep(delay);
    else await turn.out.ready();
  }
}

async function slow(turn: DemoTurn, seconds: string): Promise<void> {
  const ticks = Math.round((Number(seconds || 1) * 1000) / TICK_MS);
  for (let tick = 1; tick <= ticks; tick++) {
    turn.say(`tick ${tick} of ${ticks}\n`);
    await turn.sleep(TICK_MS);
  }
}

function plan(turn: DemoTurn): void {
  const steps: Pick<PlanEntry, "content" | "priority">[] = [
    { content: "Read the code", priority: "high" },
    { content: "Change the code", priority: "medium" },
    { content: "Run the tests", priority: "low" },
  ];
  for (let done = 0; done <= steps.length; done++) {
    const entries = steps.map((step, index): PlanEntry => {
      const status = index < done ? "completed" : index === done ? "in_progress" : "pending";
      return { ...step, status };
    });
    turn.update({ sessionUpdate: "plan", entries });
  }
}
