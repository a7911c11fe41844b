/** Commands that make tool calls without the client's help. */
import { join } from "node:path";
import type { ToolKind } from "@agentclientprotocol/sdk";
import type { Command, DemoTurn } from "../demo-turn.ts";

const KINDS: ToolKind[] = [
  "read",
  "edit",
  "delete",
  "move",
  "search",
  "execute",
  "think",
  "fetch",
  "switch_mode",
  "other",
];

export const toolCommands: Command[] = [
  {
    name: "tool",
    hint: "[KIND]",
    description: `A tool call that succeeds: ${KINDS.join(", ")}`,
    run: tool,
  },
  {
    name: "fail",
    description: "A tool call that fails",
    run: fail,
  },
];

function tool(turn: DemoTurn, name: string): void {
  const kind = KINDS.find((candidate) => candidate === name) ?? "read";
  const path = join(turn.session.record.cwd, "README.md");
  const call = turn.tool({
    title: `Demo ${kind}`,
    kind,
    rawInput: { path },
    locations: [{ path, line: 1 }],
  });
  // As the protocol requires, each update carries only what changed.
  call.patch({ status: "in_progress" });
  call.patch({
    content: [{ type: "content", content: { type: "text", text: `Output of the ${kind} tool.` } }],
  });
  call.patch({ status: "completed", rawOutput: { ok: true, kind } });
}

function fail(turn: DemoTurn): void {
  const call = turn.tool({ title: "Demo failure", kind: "execute", rawInput: { command: "false" } });
  call.patch({ status: "in_progress" });
  call.patch({
    status: "failed",
    content: [{ type: "content", content: { type: "text", text: "It failed, as it was told to." } }],
    rawOutput: { exitCode: 1 },
  });
}
