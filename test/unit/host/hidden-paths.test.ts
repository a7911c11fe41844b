import { mkdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { HiddenPathMoved, HiddenPaths } from "../../../src/host/isolation/hidden-paths.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";

describe("hidden paths", () => {
  const make = (...paths: string[]) => {
    const top = temporaryDirectory();
    for (const path of paths) mkdirSync(join(top, path), { recursive: true });
    return (path: string) => join(top, path);
  };

  test("contain each other once, except around the workspace", () => {
    const at = make("state/host", "state/root/.inner", "other");
    const hidden = new HiddenPaths(at("state/root"), [
      at("state/host"),
      at("state"),
      at("state/root/.inner"),
      at("other"),
      at("state/root"),
    ]);
    expect([...hidden.all].sort()).toEqual([at("other"), at("state"), at("state/root/.inner")]);
    expect(hidden.existing[0]).toMatchObject({ path: at("state"), isDirectory: true, isAroundRoot: true });
    expect(hidden.has(at("state/root/file"))).toBe(false);
    expect(hidden.has(at("state/root/.inner/file"))).toBe(true);
  });

  test("need not exist", () => {
    const at = make("root");
    const hidden = new HiddenPaths(at("root"), [at("root/later")]);
    expect(hidden.existing).toEqual([]);
    expect(hidden.has(at("root/later/file"))).toBe(true);
    expect(hidden.has(at("root/later-than"))).toBe(false);
  });

  test("may be listed later, and stay hidden from then on", () => {
    const at = make("root/own", "states/late");
    const listed = [at("root/own")];
    const hidden = new HiddenPaths(at("root"), () => listed);
    expect(hidden.existing.map(({ path }) => path)).toEqual([at("root/own")]);
    const before = hidden.revision;
    expect(hidden.revision).toBe(before);
    listed.push(at("states/late"), at("root/later"));
    expect(hidden.revision).toBeGreaterThan(before);
    expect(hidden.existing.map(({ path }) => path)).toEqual([at("root/own"), at("states/late")]);
    expect(hidden.has(at("root/later/file"))).toBe(true);
    listed.length = 0;
    renameSync(at("states"), at("elsewhere"));
    expect(() => hidden.existing).toThrow(HiddenPathMoved);
    expect(hidden.holds(at("elsewhere/late"))).toBe(true);
  });

  const idOf = (path: string) => {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  };

  test.each(["a", "a/b", "a/b/state"])("are missed if %s is moved, until it is back", (moved) => {
    const at = make("root", "a/b/state");
    const hidden = new HiddenPaths(at("root"), [at("a/b/state")]);
    renameSync(at(moved), at("elsewhere"));
    expect(() => hidden.existing).toThrow(HiddenPathMoved);
    mkdirSync(at("a/b/state"), { recursive: true });
    expect(() => hidden.existing).toThrow(HiddenPathMoved);
    rmSync(at(moved), { recursive: true });
    renameSync(at("elsewhere"), at(moved));
    expect(hidden.existing).toHaveLength(1);
  });

  test("are missed as well if they are files", () => {
    const at = make("root", "a");
    writeFileSync(at("a/token"), "text");
    const hidden = new HiddenPaths(at("root"), [at("a/token")]);
    renameSync(at("a"), at("elsewhere"));
    mkdirSync(at("a"));
    writeFileSync(at("a/token"), "other");
    expect(() => hidden.existing).toThrow(HiddenPathMoved);
    expect(hidden.isFile(statSync(at("elsewhere/token")))).toBe(true);
    expect(hidden.isFile(statSync(at("a/token")))).toBe(false);
  });

  test("may be deleted and made again, and a file may be replaced", () => {
    const at = make("root", "a/state", "b");
    writeFileSync(at("b/token"), "text");
    const hidden = new HiddenPaths(at("root"), [at("a/state"), at("b/token")]);
    rmSync(at("a"), { recursive: true });
    writeFileSync(at("b/new"), "text");
    renameSync(at("b/new"), at("b/token"));
    expect(hidden.existing.map(({ path, id }) => [path, id])).toEqual([[at("b/token"), idOf(at("b/token"))]]);
    mkdirSync(at("a/state"), { recursive: true });
    expect(hidden.existing).toHaveLength(2);
  });

  test("are recognized below a directory that was moved", () => {
    const at = make("root/a/state/inner", "root/b");
    const hidden = new HiddenPaths(at("root"), [at("root/a/state")]);
    renameSync(at("root/a"), at("root/moved"));
    expect(hidden.holds(at("root/moved/state/inner"))).toBe(true);
    expect(hidden.holds(at("root/moved/state"))).toBe(true);
    expect(hidden.holds(at("root/moved"))).toBe(false);
    expect(hidden.holds(at("root/b"))).toBe(false);
  });

  test("must be those that an earlier process saw", () => {
    const at = make("root", "a/state");
    const known = new Map([[at("a/state"), idOf(at("a/state"))]]);
    expect(new HiddenPaths(at("root"), [at("a/state")], known).existing).toHaveLength(1);
    renameSync(at("a"), at("elsewhere"));
    expect(() => new HiddenPaths(at("root"), [at("a/state")], known)).toThrow(HiddenPathMoved);
    mkdirSync(at("a/state"), { recursive: true });
    expect(() => new HiddenPaths(at("root"), [at("a/state")], known)).toThrow(HiddenPathMoved);
  });
});
