/** Commands that use the client's files and terminals. */
import { appendFileSync } from "node:fs";
import { resolve } from "node:path";
import { methods } from "@agentclientprotocol/sdk";
import { type Command, type DemoTurn, failureReason, firstWord } from "../demo-turn.ts";

export const workCommands: Command[] = [
  {
    name: "read",
    hint: "PATH",
    description: "Read a file through the client",
    lacks: ({ fs }) => !fs?.readTextFile && "fs.readTextFile",
    run: read,
  },
  {
    name: "edit",
    hint: "PATH [TEXT]",
    description: "Write a file through the client: TEXT, or the old content and one more line",
    lacks: ({ fs }) => !fs?.writeTextFile && "fs.writeTextFile",
    run: edit,
  },
  {
    name: "trace",
    hint: "PATH TEXT",
    description: "Append a line to a file without the client, which shows how often the command ran",
    run: trace,
  },
  {
    name: "terminal",
    hint: "COMMAND…",
    description: "Run a shell command in a client terminal",
    lacks: (client) => !client.terminal && "terminal",
    run: terminal,
  },
];

async function read(turn: DemoTurn, args: string): Promise<void> {
  const path = resolve(turn.session.record.cwd, args);
  const call = turn.tool({ title: `Read ${path}`, kind: "read", locations: [{ path }], rawInput: { path } });
  try {
    const content = await readFile(turn, path);
    call.patch({
      status: "completed",
      content: [{ type: "content", content: { type: "text", text: content } }],
    });
    turn.say(`Read ${content.length} characters from ${path}\n`);
  } catch (error) {
    const reason = failureReason(turn, error);
    call.patch({ status: "failed" });
    turn.say(`Could not read ${path}: ${reason}\n`);
  }
}

async function edit(turn: DemoTurn, args: string): Promise<void> {
  const [name, text] = firstWord(args);
  const path = resolve(turn.session.record.cwd, name || "demo.txt");
  const call = turn.tool({
    title: `Edit ${path}`,
    kind: "edit",
    locations: [{ path }],
    rawInput: { path, text },
  });

  const oldText = await readOrMissing(turn, path);
  const newText = text ? `${text}\n` : `${oldText ?? ""}Edited by the demo agent.\n`;
  call.patch({ status: "in_progress", content: [{ type: "diff", path, oldText, newText }] });
  try {
    await turn.client.request(
      methods.client.fs.writeTextFile,
      { sessionId: turn.session.id, path, content: newText },
      turn.cancellable,
    );
    call.patch({ status: "completed" });
    turn.say(`Wrote ${newText.length} characters to ${path}\n`);
  } catch (error) {
    const reason = failureReason(turn, error);
    call.patch({ status: "failed" });
    turn.say(`Could not write ${path}: ${reason}\n`);
  }
}

function trace(turn: DemoTurn, args: string): void {
  const [name, text] = firstWord(args);
  appendFileSync(resolve(turn.session.record.cwd, name || "trace.txt"), `${text}\n`);
}

async function readFile(turn: DemoTurn, path: string): Promise<string> {
  const { content } = await turn.client.request(
    methods.client.fs.readTextFile,
    { sessionId: turn.session.id, path },
    turn.cancellable,
  );
  return content;
}

/** Clients disagree about the error for a missing file, so any error counts as a missing file. */
async function readOrMissing(turn: DemoTurn, path: string): Promise<string | null> {
  if (!turn.peer.capabilities.fs?.readTextFile) return null;
  try {
    return await readFile(turn, path);
  } catch (error) {
    failureReason(turn, error);
    return null;
  }
}

async function terminal(turn: DemoTurn, command: string): Promise<void> {
  const { id: sessionId, record } = turn.session;
  const call = turn.tool({ title: command, kind: "execute", rawInput: { command } });

  const creating = turn.client.createTerminal({
    sessionId,
    command: "sh",
    args: ["-c", command],
    cwd: record.cwd,
  });
  try {
    const shell = await turn.orCancelled(creating);
    call.patch({ status: "in_progress", content: [{ type: "terminal", terminalId: shell.id }] });
    const exit = await turn.orCancelled(shell.waitForExit());
    const { output, truncated } = await turn.orCancelled(shell.currentOutput());
    call.patch({
      status: exit.exitCode === 0 ? "completed" : "failed",
      rawOutput: { ...exit, output, truncated },
    });
    turn.say(`Exit code ${exit.exitCode ?? "none"}, signal ${exit.signal ?? "none"}, output:\n${output}`);
    await turn.orCancelled(shell.release());
  } catch (error) {
    // Releasing ends the command, even if the terminal is created only after the cancel.
    void creating.then((shell) => shell.release()).catch(() => {});
    const reason = failureReason(turn, error);
    call.patch({ status: "failed" });
    turn.say(`The terminal failed: ${reason}\n`);
  }
}
