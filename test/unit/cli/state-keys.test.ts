import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { hideKeys, KEY_FILES, keysDirectory } from "../../../src/cli/state-keys.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";

/** A user with a state; `start` does what a start of the gateway does, and returns the signing key. */
function user() {
  const home = temporaryDirectory();
  const env = { XDG_STATE_HOME: join(home, "xdg") };
  const log: string[] = [];
  const start = (state: string, fresh = "fresh") => {
    mkdirSync(state, { recursive: true });
    hideKeys(state, env, (line) => log.push(line));
    const key = join(keysDirectory(state, env), KEY_FILES.signing);
    if (!existsSync(key)) writeFileSync(key, fresh);
    return readFileSync(key, "utf8");
  };
  return { home, env, log, start, state: join(home, "state") };
}

describe("the keys of a state", () => {
  test("are in the directory of the user, for its owner alone, and are found again", () => {
    const { env, log, start, state } = user();
    expect(start(state, "one")).toBe("one");
    expect(start(state, "two")).toBe("one");
    const keys = keysDirectory(state, env);
    expect(dirname(keys)).toBe(join(env.XDG_STATE_HOME, "acp-edge/keys"));
    expect(statSync(keys).mode & 0o777).toBe(0o700);
    expect(existsSync(join(state, KEY_FILES.signing))).toBe(false);
    expect(readFileSync(join(state, "keys.txt"), "utf8")).toContain(keys);
    expect(log).toEqual([]);
  });

  test("are moved there from the state of an earlier version", () => {
    const { env, log, start, state } = user();
    mkdirSync(state);
    for (const name of Object.values(KEY_FILES)) writeFileSync(join(state, name), `old ${name}`);
    expect(keysDirectory(state, env)).toBe(state);
    expect(start(state)).toBe("old signing-key.json");
    for (const name of Object.values(KEY_FILES)) {
      expect(existsSync(join(state, name))).toBe(false);
      const moved = join(keysDirectory(state, env), name);
      expect(readFileSync(moved, "utf8")).toBe(`old ${name}`);
      expect(statSync(moved).mode & 0o777).toBe(0o600);
    }
    expect(log).toEqual([]);
  });

  test("are not those that an agent puts into the state, with or without the note", () => {
    const { log, start, state } = user();
    start(state, "own");
    writeFileSync(join(state, KEY_FILES.signing), "planted");
    expect(start(state)).toBe("own");
    expect(log.join()).toContain("signing-key.json is not used");
    rmSync(join(state, "keys.txt"));
    expect(start(state, "fresh")).toBe("fresh");
  });

  test("follow a state that is moved, and return with it", () => {
    const { home, log, start, state } = user();
    start(state, "own");
    const moved = join(home, "elsewhere");
    renameSync(state, moved);
    expect(start(state, "other")).toBe("other");
    expect(start(moved)).toBe("own");
    rmSync(state, { recursive: true });
    renameSync(moved, state);
    expect(start(state)).toBe("own");
    expect(log).toEqual([]);
  });

  test("are new after the state was deleted, even if the directory has the number of the deleted one", () => {
    const { start, state } = user();
    start(state, "own");
    rmSync(join(state, "keys.txt"));
    expect(start(state, "second")).toBe("second");
    rmSync(state, { recursive: true });
    expect(start(state, "third")).toBe("third");
  });

  test("are new for a copy, with a warning that says what is lost", () => {
    const { home, log, start, state } = user();
    start(state, "own");
    cpSync(state, join(home, "copy"), { recursive: true });
    expect(start(join(home, "copy"), "new")).toBe("new");
    expect(log.join()).toMatch(/has been used before.*new keys are made/);
    expect(start(state)).toBe("own");
  });

  test("stay in the state, with a warning, if the directory of the user cannot be written", () => {
    const { env, log, start, state } = user();
    writeFileSync(env.XDG_STATE_HOME, "no directory");
    expect(start(state, "one")).toBe("one");
    expect(start(state, "two")).toBe("one");
    expect(keysDirectory(state, env)).toBe(state);
    expect(log[0]).toContain(`the keys stay in ${state}`);
    rmSync(env.XDG_STATE_HOME);
    expect(start(state)).toBe("one");
    expect(keysDirectory(state, env)).not.toBe(state);
  });
});
