/** Commands that change the state of the session. */

import type { Command, DemoTurn } from "../demo-turn.ts";
import { configOptions, DEMO_MODES, isValidConfig } from "../settings.ts";

export const settingCommands: Command[] = [
  {
    name: "mode",
    hint: DEMO_MODES.map(({ id }) => id).join("|"),
    description: "Switch the mode from the agent's side",
    run: mode,
  },
  {
    name: "config",
    hint: "ID VALUE",
    description: "Change a config option from the agent's side",
    run: config,
  },
  {
    name: "title",
    hint: "TEXT",
    description: "Name the session",
    run: (turn, title) => rename(turn, title),
  },
  {
    name: "late",
    hint: "[TITLE]",
    description: "Name the session just after the turn has ended",
    // The SDK sends the response in this turn of the event loop, so two turns later it has left.
    run: (turn, title) => void setImmediate(() => setImmediate(() => rename(turn, title || "Late title"))),
  },
  {
    name: "usage",
    description: "Report the use of the context window",
    run: usage,
  },
  {
    name: "notice",
    hint: "TEXT",
    description: "A notice, if the client supports notices",
    lacks: ({ session }) => !session?.notices && "session.notices",
    run: (turn, title) =>
      turn.update({ sessionUpdate: "notice", severity: "info", title: title || "Notice" }),
  },
  {
    name: "compact",
    description: "A context compaction, if the client supports compactions",
    lacks: ({ session }) => !session?.compaction && "session.compaction",
    run: compact,
  },
];

function mode(turn: DemoTurn, modeId: string): void {
  if (!DEMO_MODES.some(({ id }) => id === modeId)) {
    turn.say(`There is no mode ${modeId}.\n`);
    return;
  }
  turn.session.change({ modeId });
  turn.update({ sessionUpdate: "current_mode_update", currentModeId: modeId });
}

function config(turn: DemoTurn, args: string): void {
  const [id = "", word = ""] = args.split(/\s+/);
  const value = word === "true" || word === "false" ? word === "true" : word;
  if (!isValidConfig(id, value)) {
    turn.say(`There is no config option ${id} with a value ${word}.\n`);
    return;
  }
  turn.session.change({ config: { ...turn.session.record.config, [id]: value } });
  turn.update({
    sessionUpdate: "config_option_update",
    configOptions: configOptions(
      turn.session.record.config,
      Boolean(turn.peer.capabilities.session?.configOptions?.boolean),
    ),
  });
}

function rename({ session }: DemoTurn, title: string): void {
  session.change({ title });
  session.send({ sessionUpdate: "session_info_update", title, updatedAt: session.record.updatedAt });
}

function usage(turn: DemoTurn): void {
  const { prompts } = turn.session.record;
  turn.update({
    sessionUpdate: "usage_update",
    used: prompts * 1000,
    size: 200_000,
    cost: { amount: prompts / 100, currency: "USD" },
  });
}

function compact(turn: DemoTurn): void {
  const compactionId = `compaction_${turn.session.record.prompts}`;
  turn.update({ sessionUpdate: "compaction_update", compactionId, status: "in_progress" });
  for (const text of ["So far ", "nothing much ", "has happened."]) {
    turn.update({ sessionUpdate: "compaction_summary_chunk", compactionId, content: { type: "text", text } });
  }
  turn.update({ sessionUpdate: "compaction_update", compactionId, status: "completed" });
}
