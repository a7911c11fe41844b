/**
 * Decides what the stand-in for a model answers. The prompt says it, in words between double brackets:
 *
 * - `[[think]]` a thought before the text
 * - `[[say N]]` N pieces of text instead of one
 * - `[[write FILE]]`, `[[run COMMAND]]`, `[[read FILE]]`, `[[ask QUESTION]]` a call of the agent's tool for that
 * - `[[hold]]` one piece of text, then nothing until the agent hangs up
 */

/** One part of the conversation, oldest first. */
export type Item = { by: "user" | "model" | "tool"; text: string };

/** A tool of the agent, with the names of its parameters. */
export type Tool = { name: string; parameters: readonly string[] };

export type Call = { name: string; arguments: Record<string, unknown> };

export type Plan = { thought: string[]; texts: string[]; call?: Call; holds: boolean };

export const WRITTEN = "written by the model\n";

type ToolKind = "write" | "run" | "read" | "ask";

/** The tools of the agents in the suite. Names and arguments are similar, because models know them. */
const TOOLS: Record<ToolKind, { names: string[]; arguments: (value: string) => Record<string, unknown> }> = {
  write: {
    names: ["Write", "write_file"],
    arguments: (value) => ({ file_path: value, content: WRITTEN }),
  },
  read: {
    names: ["Read", "read_file"],
    arguments: (value) => ({ file_path: value }),
  },
  run: {
    names: ["Bash", "run_shell_command"],
    arguments: (value) => ({ command: value, description: "Run a command", is_background: false }),
  },
  ask: {
    names: ["AskUserQuestion", "ask_user"],
    arguments: (value) => ({
      questions: [
        {
          question: value,
          header: "Question",
          type: "choice",
          multiSelect: false,
          options: [
            { label: "Red", description: "The colour red" },
            { label: "Blue", description: "The colour blue" },
          ],
        },
      ],
    }),
  },
};

export function planAnswer(items: readonly Item[], tools: readonly Tool[]): Plan {
  const start = items.findLastIndex(({ by, text }) => by === "user" && DIRECTIVE.test(text));
  const directives = start < 0 ? [] : directivesIn(items[start]?.text as string);
  const has = (word: string) => directives.some(([name]) => name === word);
  const results = items.slice(start + 1).filter(({ by }) => by === "tool");
  const calls = directives.filter(([name]) => name in TOOLS);
  const next = calls[results.length];
  const call = next && callOf(next[0] as ToolKind, next[1], tools);
  const thought = has("think") && results.length === 0 ? ["Let me think ", "about this."] : [];
  if (call) return { thought, texts: [`I use ${call.name}.`], call, holds: false };
  const count = Number(directives.find(([name]) => name === "say")?.[1] ?? 1);
  const last = results.at(-1)?.text;
  const texts =
    last === undefined
      ? Array.from({ length: count }, (_, index) => `Piece ${index + 1} of ${count}. `)
      : [`The tool said: ${last.slice(0, 200)}`];
  return { thought, texts, holds: has("hold") };
}

const DIRECTIVE = /\[\[(\w+) ?([^\]]*)\]\]/;

function directivesIn(text: string): [name: string, value: string][] {
  return [...text.matchAll(new RegExp(DIRECTIVE, "g"))].map(([, name = "", value = ""]) => [name, value]);
}

function callOf(kind: ToolKind, value: string, tools: readonly Tool[]): Call | undefined {
  const { names, arguments: argumentsFor } = TOOLS[kind];
  const tool = names.map((name) => tools.find((candidate) => candidate.name === name)).find(Boolean);
  if (!tool) return undefined;
  // Agents refuse a parameter that they do not know.
  const known = Object.entries(argumentsFor(value)).filter(([name]) => tool.parameters.includes(name));
  return { name: tool.name, arguments: Object.fromEntries(known) };
}
