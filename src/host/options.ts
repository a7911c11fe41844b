import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import { parseArgs } from "node:util";

export const USAGE = `usage: node src/host/main.ts --gateway URL --workspace ID --root DIR [--name NAME] [--agent COMMAND] [--token TOKEN]

The host token is read from ACP_EDGE_HOST_TOKEN unless given as --token.`;

export type CommandLine = {
  gateway: string;
  workspace: string;
  root: string;
  name: string;
  token: string;
  agent: string[] | undefined;
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
      agent: { type: "string" },
    },
  });
  const gateway = required("--gateway", values.gateway);
  if (!/^https?:$/.test(new URL(gateway).protocol)) throw new Error("--gateway must be an http(s) URL");
  return {
    gateway,
    workspace: required("--workspace", values.workspace),
    root: realpathSync(required("--root", values.root)),
    name: values.name,
    token: required("ACP_EDGE_HOST_TOKEN", values.token ?? env.ACP_EDGE_HOST_TOKEN),
    agent: values.agent === undefined ? undefined : splitCommand(values.agent),
  };
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
