/** The table of commands. `/help` prints it, and clients see it as the available commands. */
import type { SessionUpdate } from "@agentclientprotocol/sdk";
import { contentCommands } from "./commands/content.ts";
import { endingCommands } from "./commands/endings.ts";
import { infoCommands } from "./commands/info.ts";
import { questionCommands } from "./commands/questions.ts";
import { settingCommands } from "./commands/settings.ts";
import { textCommands } from "./commands/text.ts";
import { toolCommands } from "./commands/tools.ts";
import { wireCommands } from "./commands/wire.ts";
import { workCommands } from "./commands/work.ts";
import type { Command } from "./demo-turn.ts";

const tableCommands: Command[] = [
  {
    name: "help",
    description: "List the commands",
    run: (turn) =>
      turn.say(`${commands.map((command) => `- \`${usage(command)}\` ${command.description}`).join("\n")}\n`),
  },
  {
    name: "commands",
    description: "Send available_commands_update again",
    run: (turn) => turn.update(availableCommands()),
  },
];

const commands: Command[] = [
  ...tableCommands,
  ...textCommands,
  ...toolCommands,
  ...questionCommands,
  ...workCommands,
  ...contentCommands,
  ...settingCommands,
  ...infoCommands,
  ...endingCommands,
  ...wireCommands,
];

const byName = new Map(commands.map((command) => [command.name, command]));

export function findCommand(name: string): Command | undefined {
  return byName.get(name);
}

export function availableCommands(): SessionUpdate {
  return {
    sessionUpdate: "available_commands_update",
    availableCommands: commands.map(({ name, hint, description }) => ({
      name,
      description,
      ...(hint && { input: { hint } }),
    })),
  };
}

function usage({ name, hint }: Command): string {
  return hint ? `/${name} ${hint}` : `/${name}`;
}
