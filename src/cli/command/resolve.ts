import { CliError, EXIT } from "../cli-error.ts";
import { ApiClient } from "../gateway/api-client.ts";
import { resolveTarget, type Target, type TargetOptions } from "../gateway/target.ts";
import { claimsOf } from "../gateway/token-source.ts";

/** Turns what the user gave on the command line into a gateway, a workspace or a session. */

export function targetOf(options: TargetOptions): Target {
  return resolveTarget(options, process.env);
}

export function apiOf(options: TargetOptions): ApiClient {
  return new ApiClient(targetOf(options));
}

/** The named workspace; otherwise every workspace that the token names or may list. */
export async function resolveWorkspaces(target: Target): Promise<string[]> {
  if (target.workspace !== undefined) return [target.workspace];
  const claimed = claimsOf(await target.token())?.workspaces;
  const names = Array.isArray(claimed) ? claimed.filter((name) => typeof name === "string") : [];
  const { workspaces } = await new ApiClient(target).workspaces(200);
  const ids = new Set([...names.filter((name) => !name.includes("*")), ...workspaces.map(({ id }) => id)]);
  if (ids.size > 0) return [...ids];
  throw new CliError("the token names no workspace: choose one with --workspace", EXIT.usage);
}

/** The workspace for a command that works on exactly one. */
export async function resolveWorkspace(options: TargetOptions): Promise<string> {
  return (await resolveWorkspaces(targetOf(options)))[0] as string;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Help for an argument that `resolveSessionId` reads. */
export const SESSION_HELP = "session id, the beginning of one, or `last`";

/** A session by its id, by the beginning of its id, or the most recently used session for `last`. */
export async function resolveSessionId(api: ApiClient, text: string): Promise<string> {
  if (UUID.test(text)) return text;
  const { sessions } = await api.sessions(200, undefined, text === "last" ? "exclude" : "include");
  const ids = sessions.map((session) => session.sessionId);
  const found = text === "last" ? ids.slice(0, 1) : ids.filter((id) => text !== "" && id.startsWith(text));
  if (found.length === 1) return found[0] as string;
  if (found.length > 1) throw new CliError(`${found.length} sessions begin with ${text}`, EXIT.usage);
  throw new CliError(`there is no session ${text}`, EXIT.notFound);
}
