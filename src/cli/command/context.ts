import { Command, Option } from "commander";
import { CliError, EXIT } from "../exit.ts";
import { ApiClient } from "../gateway/api-client.ts";
import { ENVIRONMENT, resolveTarget, type Target, type TargetOptions } from "../gateway/target.ts";
import { claimsOf } from "../gateway/token-source.ts";
import { type Terminal, terminal } from "../terminal.ts";

/** What commands have in common: `--json` or words, and a gateway. */

export type OutputOptions = { json?: boolean };
export type GatewayOptions = TargetOptions & OutputOptions;

export const stdout: Terminal = terminal(process.stdout, process.env);
export const stderr: Terminal = terminal(process.stderr, process.env);

/** A command that prints something. */
export function printing(name: string, summary: string): Command {
  return new Command(name).description(summary).option("--json", "JSON on stdout, nothing else");
}

/** A command that talks to a gateway. */
export function talking(name: string, summary: string): Command {
  return withGateway(printing(name, summary));
}

/** All that says where the gateway is, as a group of its own in `--help`. */
export function withGateway(command: Command): Command {
  const options: [string, string, string][] = [
    ["--profile <name>", "profile of the configuration file", ENVIRONMENT.profile],
    ["--url <url>", "address of the gateway", ENVIRONMENT.url],
    ["--workspace <id>", "workspace", ENVIRONMENT.workspace],
    ["--agent <id>", "agent", ENVIRONMENT.agent],
    ["--token <token>", "token, visible to other users of this machine", ENVIRONMENT.token],
    ["--token-file <path>", "file with the token", ENVIRONMENT.tokenFile],
    ["--token-command <command>", "command that prints the token", ENVIRONMENT.tokenCommand],
  ];
  for (const [flags, text, variable] of options)
    command.addOption(new Option(flags, `${text} (${variable})`).helpGroup("Gateway:"));
  return command;
}

export function targetOf(options: TargetOptions): Target {
  return resolveTarget(options, process.env);
}

export function apiOf(options: TargetOptions): ApiClient {
  return new ApiClient(targetOf(options));
}

/** One document for programs, or words for people. */
export function print(options: OutputOptions, value: unknown, words: () => string): void {
  if (options.json) return printJson(value);
  const text = words();
  if (text !== "") process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** For people only, beside what was asked for. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** The workspaces meant: the one named, else those the token is for, by name or because they are there. */
export async function workspacesOf(target: Target): Promise<string[]> {
  if (target.workspace !== undefined) return [target.workspace];
  const claimed = claimsOf(await target.token())?.workspaces;
  const names = Array.isArray(claimed) ? claimed.filter((name) => typeof name === "string") : [];
  const { workspaces } = await new ApiClient(target).workspaces(200);
  const ids = new Set([...names.filter((name) => !name.includes("*")), ...workspaces.map(({ id }) => id)]);
  if (ids.size > 0) return [...ids];
  throw new CliError("the token names no workspace: say which with --workspace", EXIT.usage);
}

/** The one meant, where it can be only one. */
export async function workspaceOf(options: TargetOptions): Promise<string> {
  return (await workspacesOf(targetOf(options)))[0] as string;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A session by its id, the beginning of it, or `last` for the one used last. */
export async function sessionId(api: ApiClient, text: string): Promise<string> {
  if (UUID.test(text)) return text;
  const { sessions } = await api.sessions(200);
  const ids = sessions.map((session) => session.sessionId);
  const found = text === "last" ? ids.slice(0, 1) : ids.filter((id) => text !== "" && id.startsWith(text));
  if (found.length === 1) return found[0] as string;
  const fault =
    found.length > 1 ? `${found.length} sessions begin with ${text}` : `there is no session ${text}`;
  throw new CliError(fault, found.length > 1 ? EXIT.usage : EXIT.notFound);
}

/** A whole number, as an option's value. */
export function whole(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new CliError(`${text} is not a whole number`, EXIT.usage);
  return Number(text);
}

/** A time, as an option's value. */
export function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value >= 0)) throw new CliError(`${text} is no number of seconds`, EXIT.usage);
  return value;
}

/** Ends with the first Ctrl-C: for what goes on until then. */
export function untilInterrupted(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());
  return interrupted.signal;
}

export const ID_HELP = "the session's id, the beginning of it, or `last`";
