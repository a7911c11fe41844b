import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { localStates, rememberLocalState } from "../../../src/node/local-states.ts";

test("a host knows the states of its user's local gateways, and forgets those that are gone", () => {
  const home = mkdtempSync(join(tmpdir(), "acp-edge-states-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const env = { XDG_STATE_HOME: home };
  const [first, second] = [join(home, "first"), join(home, "second")];
  for (const directory of [first, second]) mkdirSync(directory);
  expect(localStates(env)).toEqual([]);
  rememberLocalState(first, env);
  rememberLocalState(first, env);
  expect(localStates(env)).toEqual([first]);
  rmSync(first, { recursive: true });
  rememberLocalState(second, env);
  expect(localStates(env)).toEqual([second]);
});
