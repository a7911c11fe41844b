import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findKeys, hiddenKeysDirectory, noteDirectory, setAside } from "../node/local-states.ts";
import { reasonOf } from "../node/log.ts";

/** The private keys of a state directory. */
export const KEY_FILES = {
  signing: "signing-key.json",
  hosts: "host-signing-key.json",
  secrets: "secrets-key",
} as const;

/**
 * Where the keys of a state are: hidden in the directory of the user, or in the state itself if `hideKeys` has not run or
 * could not move them. Files in the state count for nothing as soon as there are hidden keys, because an agent could put
 * a key of its own there.
 */
export function keysDirectory(state: string, env: NodeJS.ProcessEnv = process.env): string {
  const hidden = hiddenKeysDirectory(state, env);
  return existsSync(hidden) ? hidden : state;
}

/** In the state, for people; without it the state is new. Nothing reads its text, which an agent may change. */
const NOTE = "keys.txt";

type Log = (line: string) => void;

/** Moves the keys to where agents do not see them. One process at a time may do so. */
export function hideKeys(state: string, env: NodeJS.ProcessEnv, log: Log): void {
  const hidden = hiddenKeysDirectory(state, env);
  try {
    settle(state, hidden, env, log);
    noteDirectory(hidden, state);
    writeFileSync(join(state, NOTE), `The keys of this directory are in ${hidden}\n`, { mode: 0o600 });
  } catch (error) {
    const here = keysDirectory(state, env);
    log(`WARNING: the keys stay in ${here}, where agents that run already may read them: ${reasonOf(error)}`);
    return;
  }
  for (const name of Object.values(KEY_FILES)) dropCopy(join(state, name), join(hidden, name), log);
}

/** Gives the state the keys that it had, wherever it was then, or new ones. */
function settle(state: string, hidden: string, env: NodeJS.ProcessEnv, log: Log): void {
  const isUsed = existsSync(join(state, NOTE));
  const isFirst = !existsSync(hidden);
  const own = isUsed ? findKeys(state, env) : undefined;
  if (own === hidden || (isUsed && own === undefined && !isFirst)) return;
  // Another directory had this path. It may come back.
  if (!isFirst) setAside(hidden, state);
  if (own !== undefined) return renameSync(own, hidden);
  const draft = `${hidden}.draft`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true, mode: 0o700 });
  // An earlier version kept the keys in the state. After that, only an agent can have put a key there.
  const found = isFirst ? Object.values(KEY_FILES).filter((name) => existsSync(join(state, name))) : [];
  for (const name of found)
    writeFileSync(join(draft, name), readFileSync(join(state, name)), { mode: 0o600, flush: true });
  renameSync(draft, hidden);
  if (isUsed && found.length === 0)
    log(
      `WARNING: ${state} has been used before, but its keys are not in ${hidden}: new keys are made. Earlier tokens are not valid any more, and secrets of workspaces have to be set again, unless you put the earlier keys there.`,
    );
}

/** An earlier version keeps its keys in the state. A key that is not the hidden one stays, but nothing uses it. */
function dropCopy(copy: string, key: string, log: Log): void {
  if (!existsSync(copy)) return;
  if (existsSync(key) && readFileSync(copy).equals(readFileSync(key))) rmSync(copy);
  else log(`WARNING: ${copy} is not used: the key of this state is ${key}`);
}
