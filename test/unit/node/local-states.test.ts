import { mkdirSync, readdirSync, renameSync, rmSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  hiddenKeysDirectory,
  localStates,
  missingLocalStates,
  noteDirectory,
  rememberLocalState,
} from "../../../src/node/local-states.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";

function user() {
  const home = temporaryDirectory();
  const [first, second] = [join(home, "first"), join(home, "second")];
  for (const directory of [first, second]) mkdirSync(directory);
  return { home, first, second, env: { XDG_STATE_HOME: home } };
}

test("a host knows the states of its user's local gateways, each once", () => {
  const { first, second, env } = user();
  expect(localStates(env)).toEqual([]);
  for (const state of [first, second, first]) rememberLocalState(state, env);
  expect(localStates(env).sort()).toEqual([first, second]);
  expect(missingLocalStates(env)).toEqual([]);
});

test("a state that is missing stays known, and is forgotten only after a long time", () => {
  const { home, first, second, env } = user();
  rememberLocalState(first, env);
  renameSync(first, join(home, "moved"));
  rememberLocalState(second, env);
  rememberLocalState(second, env);
  expect(localStates(env).sort()).toEqual([first, second]);
  expect(missingLocalStates(env)).toEqual([first]);

  const age = (days: number) => {
    const marks = join(home, "acp-edge/missing");
    const at = Date.now() / 1000 - days * 24 * 60 * 60;
    for (const name of readdirSync(marks)) utimesSync(join(marks, name), at, at);
  };
  age(29);
  rememberLocalState(second, env);
  expect(missingLocalStates(env)).toEqual([first]);
  renameSync(join(home, "moved"), first);
  rememberLocalState(second, env);
  expect(missingLocalStates(env)).toEqual([]);

  // The absence counts from its own beginning.
  rmSync(first, { recursive: true });
  rememberLocalState(second, env);
  expect(missingLocalStates(env)).toEqual([first]);
  age(31);
  rememberLocalState(second, env);
  expect(localStates(env)).toEqual([second]);
});

test("a state is missing as well if another directory has its path", () => {
  const { home, first, env } = user();
  rememberLocalState(first, env);
  const keys = hiddenKeysDirectory(first, env);
  mkdirSync(keys, { recursive: true });
  noteDirectory(keys, first);
  expect(missingLocalStates(env)).toEqual([]);
  renameSync(first, join(home, "moved"));
  mkdirSync(first);
  expect(missingLocalStates(env)).toEqual([first]);
});
