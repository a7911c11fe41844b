import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

/**
 * The state directories of this user's local gateways. Every host of the user hides them from its agents, also a host
 * that another program started. The keys of a state are in the directory of the user, which each host hides from its
 * start: an agent that runs already sees the state of a gateway that starts later, but never its keys.
 */

/** Directory for the states of hosts, the list of local gateways and their keys, which a host hides as a whole. */
export function userStateDirectory(env: NodeJS.ProcessEnv): string {
  return join(env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "acp-edge");
}

/** A directory that is missing stays in the list this long: it may have been moved, and may come back. */
const MISSING_MS = 30 * 24 * 60 * 60 * 1000;

export function rememberLocalState(directory: string, env: NodeJS.ProcessEnv): void {
  const name = nameOf(directory);
  const user = userStateDirectory(env);
  for (const part of [LIST, MISSING]) mkdirSync(join(user, part), { recursive: true, mode: 0o700 });
  forgetDeleted(env);
  // Hosts read the list at any time, so an entry is complete from the beginning.
  const draft = join(user, `${name}.draft`);
  writeFileSync(draft, realPath(directory), { mode: 0o600 });
  renameSync(draft, join(user, LIST, name));
}

export function localStates(env: NodeJS.ProcessEnv): string[] {
  return entries(env).map(({ path }) => path);
}

/** States that are not where their gateway left them: they were deleted, or agents may find them elsewhere. */
export function missingLocalStates(env: NodeJS.ProcessEnv): string[] {
  const isMissing = ({ path, name }: Entry) => {
    const id = directoryId(path);
    return id === undefined || id !== (knownId(join(userStateDirectory(env), KEYS, name)) ?? id);
  };
  return entries(env)
    .filter(isMissing)
    .map(({ path }) => path);
}

/** Where the keys of a state belong. */
export function hiddenKeysDirectory(state: string, env: NodeJS.ProcessEnv): string {
  return join(userStateDirectory(env), KEYS, nameOf(state));
}

/** The keys that belong to a directory, also if it had another path when its gateway ran last. */
export function findKeys(state: string, env: NodeJS.ProcessEnv): string | undefined {
  const all = join(userStateDirectory(env), KEYS);
  const id = directoryId(state);
  const names = existsSync(all) ? readdirSync(all) : [];
  const places = [hiddenKeysDirectory(state, env), ...names.map((name) => join(all, name))];
  return places.find((keys) => id !== undefined && knownId(keys) === id);
}

/** Keeps keys for the case that their directory comes back. */
export function setAside(keys: string, state: string): void {
  // The directory has become another state, so it will not come back as it was.
  if (knownId(keys) === directoryId(state)) rmSync(join(keys, STATE_ID));
  renameSync(keys, `${keys}.${Date.now()}`);
}

/** Notes beside the keys of a state which directory the state is. */
export function noteDirectory(keys: string, state: string): void {
  writeFileSync(join(keys, STATE_ID), directoryId(state) ?? "", { mode: 0o600 });
}

const LIST = "gateways";
const MISSING = "missing";
const KEYS = "keys";
const STATE_ID = "state-id";

type Entry = { name: string; path: string };

function entries(env: NodeJS.ProcessEnv): Entry[] {
  const list = join(userStateDirectory(env), LIST);
  if (!existsSync(list)) return [];
  return readdirSync(list).flatMap((name) => {
    const path = textOf(join(list, name));
    return path !== undefined && isAbsolute(path) ? { name, path } : [];
  });
}

/** An agent can move a directory, so only a long absence counts as its end. */
function forgetDeleted(env: NodeJS.ProcessEnv): void {
  const user = userStateDirectory(env);
  for (const { name, path } of entries(env)) {
    const mark = join(user, MISSING, name);
    const since = statSync(mark, { throwIfNoEntry: false })?.mtimeMs;
    const isThere = existsSync(path);
    if (!isThere && since === undefined) writeFileSync(mark, "", { mode: 0o600 });
    const isOver = !isThere && since !== undefined && since < Date.now() - MISSING_MS;
    if (isOver) rmSync(join(user, LIST, name), { force: true });
    if (isOver || isThere) rmSync(mark, { force: true });
  }
}

function nameOf(directory: string): string {
  return createHash("sha256").update(realPath(directory)).digest("hex");
}

function realPath(directory: string): string {
  return existsSync(directory) ? realpathSync(directory) : directory;
}

/** Device and inode, which stay when the directory is renamed. */
function directoryId(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stats && `${stats.dev}:${stats.ino}`;
}

function knownId(keys: string): string | undefined {
  return textOf(join(keys, STATE_ID));
}

/** Undefined if the file is missing, perhaps since a moment ago. */
function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
