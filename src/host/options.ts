import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import { parseArgs } from "node:util";
import type { AgentOptions } from "./agent.ts";

export const USAGE = `usage: node src/host/main.ts --gateway URL --workspace ID --root DIR [options]

  --name NAME         what to call this host (default: the machine's name)
  --token TOKEN       the host token
  --agents ID,ID,…    agents of the catalogue it may start (default: all of them)
  --default ID        the agent for whoever asks for none (default: the first of --agents, else demo)
  --agent COMMAND     an agent of your own, with the id custom, which then is the default
  --catalogue FILE    more agents, or the same ones told differently; entries as in the ACP registry
  --npx               let npx and uvx download agents that are not installed
  --pass-env NAME,…   environment variables for every agent, besides those it declares

Each can be in the environment instead: ACP_EDGE_HOST_TOKEN, ACP_EDGE_AGENTS, ACP_EDGE_DEFAULT_AGENT,
ACP_EDGE_AGENT, ACP_EDGE_CATALOGUE, ACP_EDGE_NPX=1, ACP_EDGE_PASS_ENV.`;

export type CommandLine = AgentOptions & {
  gateway: string;
  workspace: string;
  root: string;
  name: string;
  token: string;
  /** `npx` and `uvx` may download. */
  npx: boolean;
  passEnv: string[];
};

/** Throws an error with a message for the person at the keyboard. */
export function readCommandLine(args: string[], env: NodeJS.ProcessEnv): CommandLine {
  const { values } = parseArgs({
    args,
    options: {
      gateway: { type: "string" },
      workspace: { type: "string" },
      root: { type: "string" },
      name: { type: "string", default: hostname() },
      token: { type: "string" },
      agents: { type: "string" },
      default: { type: "string" },
      agent: { type: "string" },
      catalogue: { type: "string" },
      npx: { type: "boolean" },
      "pass-env": { type: "string" },
    },
  });
  const gateway = required("--gateway", values.gateway);
  if (!/^https?:$/.test(new URL(gateway).protocol)) throw new Error("--gateway must be an http(s) URL");
  const agent = values.agent ?? (env.ACP_EDGE_AGENT || undefined);
  const agents = values.agents ?? env.ACP_EDGE_AGENTS;
  return {
    gateway,
    workspace: required("--workspace", values.workspace),
    root: realpathSync(required("--root", values.root)),
    name: values.name,
    token: required("ACP_EDGE_HOST_TOKEN", values.token ?? env.ACP_EDGE_HOST_TOKEN),
    agent: agent === undefined ? undefined : splitCommand(agent),
    agents: agents ? list(agents) : undefined,
    defaultAgent: values.default ?? (env.ACP_EDGE_DEFAULT_AGENT || undefined),
    catalogue: values.catalogue ?? (env.ACP_EDGE_CATALOGUE || undefined),
    npx: values.npx ?? env.ACP_EDGE_NPX === "1",
    passEnv: list(values["pass-env"] ?? env.ACP_EDGE_PASS_ENV ?? ""),
  };
}

function list(text: string): string[] {
  return text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);
}

function required(name: string, value: string | undefined): string {
  if (!value) throw new Error(`${name} is missing`);
  return value;
}

/** Splits a command as a shell would, with quotes and backslashes, but expands nothing. */
export function splitCommand(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (char === "\\" && quote !== "'" && at + 1 < text.length) {
      const next = text[++at] as string;
      const escapes = quote === "" || next === '"' || next === "\\";
      word = (word ?? "") + (escapes ? next : char + next);
    } else if (quote !== "" ? char === quote : char === "'" || char === '"') {
      quote = quote === "" ? char : "";
      word ??= "";
    } else if (quote === "" && /\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== "") throw new Error(`the command lacks a closing ${quote}: ${text}`);
  if (word !== undefined) words.push(word);
  if (words.length === 0) throw new Error("the command is empty");
  return words;
}
