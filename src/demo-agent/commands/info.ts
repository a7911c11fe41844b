/** Commands that report the agent's own situation. */
import type { Command } from "../demo-turn.ts";

export const infoCommands: Command[] = [
  {
    name: "echo",
    description: "The prompt's content blocks as JSON",
    run: (turn) => turn.say(`${JSON.stringify(turn.prompt)}\n`),
  },
  {
    name: "client",
    description: "The client as it introduced itself",
    run: (turn) => turn.say(`${JSON.stringify(turn.peer)}\n`),
  },
  {
    name: "mcp",
    description: "The names of the MCP servers of the session",
    run: (turn) => turn.say(`mcp servers: ${turn.session.mcpServers.join(", ") || "none"}\n`),
  },
  {
    name: "env",
    hint: "NAME",
    description: "Whether an environment variable is set",
    run: (turn, name) => turn.say(`${name} is ${process.env[name] === undefined ? "not set" : "set"}\n`),
  },
  {
    name: "cwd",
    description: "The working directories of session and process",
    run: (turn) => turn.say(`session: ${turn.session.record.cwd}\nprocess: ${process.cwd()}\n`),
  },
  {
    name: "pid",
    description: "The process id",
    run: (turn) => turn.say(`pid ${process.pid}\n`),
  },
  {
    name: "history",
    description: "The number of prompts of the session, including this one",
    run: (turn) => turn.say(`prompts: ${turn.session.record.prompts}\n`),
  },
];
