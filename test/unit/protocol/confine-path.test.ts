import { posix, win32 } from "node:path";
import { array, assert, constantFrom, oneof, property, string } from "fast-check";
import { describe, expect, test } from "vitest";
import { confinePath } from "../../../src/protocol/confine-path.ts";
import { propertyRuns } from "../../fixtures/property-runs.ts";

describe("a path for a client", () => {
  test.each([
    ["/srv/api/src/a.ts", "/srv/api", "/home/me/api", "/home/me/api/src/a.ts"],
    ["/srv/api", "/srv/api", "/home/me/api", "/home/me/api"],
    ["/srv/api/a", "/srv/api/", "/home/me/api/", "/home/me/api/a"],
    ["/srv/api/./b/../a//c", "/srv/api", "/home", "/home/a/c"],
    ["/srv/../srv/api/a", "/srv/api", "/home", "/home/a"],
    ["/../srv/api/a", "/srv/api", "/home", "/home/a"],
    ["a/b", "/srv/api", "/home", "/home/a/b"],
    ["/srv/api/a/b", "/srv/api", "C:\\work\\api", "C:\\work\\api\\a\\b"],
    ["/srv/api/a/b", "/srv/api", "C:/work/api", "C:/work/api/a/b"],
    ["/srv/api/a", "/srv/api", "C:", "C:\\a"],
    ["/srv/api/a", "/srv/api", "\\\\server\\share", "\\\\server\\share\\a"],
    ["C:\\work\\api\\a/b", "C:\\work\\api", "/srv/api", "/srv/api/a/b"],
    ["c:\\work\\api\\a", "C:\\work\\api", "/srv/api", "/srv/api/a"],
    ["/srv/api/a", "/srv/api", "/", "/a"],
    ["/srv/api/..a/...", "/srv/api", "/home", "/home/..a/..."],
  ])("%j below %j becomes, for a client at %j, %j", (path, from, to, there) => {
    expect(confinePath(path, from, to)).toBe(there);
  });

  test.each([
    ["/srv/api-2/a", "/srv/api", "/home"],
    ["/srv/api/../api-2/a", "/srv/api", "/home"],
    ["/srv/api/a/../..", "/srv/api", "/home"],
    ["/etc/passwd", "/srv/api", "/home"],
    ["../a", "/srv/api", "/home"],
    ["a/../../b", "/srv/api", "/home"],
    ["", "/srv/api", "/home"],
    ["/srv/api/a\0", "/srv/api", "/home"],
    [undefined, "/srv/api", "/home"],
    [7, "/srv/api", "/home"],
    // The client's machine may read a backslash as a separator, whatever its directory looks like.
    ["/srv/api/..\\..\\a", "/srv/api", "/home"],
    ["/srv/api/..\\..\\a", "/srv/api", "C:\\work"],
    ["/srv/api/a:stream", "/srv/api", "C:\\work"],
    ["/srv/api/C:/a", "/srv/api", "C:\\work"],
    ["/srv/api/.. /a", "/srv/api", "C:\\work"],
    ["/srv/api/.../a", "/srv/api", "C:\\work"],
    ["/srv/api/nul.txt", "/srv/api", "C:\\work"],
    ["/srv/api/COM1", "/srv/api", "C:\\work"],
    ["D:\\work\\api\\a", "C:\\work\\api", "/srv/api"],
    ["C:work\\api\\a", "C:\\work\\api", "/srv/api"],
    ["\\work\\api\\a", "C:\\work\\api", "/srv/api"],
    // A client that has named no absolute directory has none.
    ["/srv/api/a", "/srv/api", ""],
    ["/srv/api/a", "/srv/api", "project"],
    ["/srv/api/a", "", "/home"],
  ])("%j is refused below %j for %j", (path, from, to) => {
    expect(confinePath(path, from, to)).toBeUndefined();
  });
});

const NAMES = ["a", "b.ts", "..", ".", "", "...", "..\\..", "a\\b", "C:", "~", "-x", " ", "..\0", "%2e%2e"];
const segment = oneof({ weight: 4, arbitrary: constantFrom(...NAMES) }, string({ maxLength: 4 }));
const path = oneof(
  array(segment, { maxLength: 8 }).map((segments) => segments.join("/")),
  array(segment, { maxLength: 8 }).map((segments) => `/srv/api/${segments.join("/")}`),
  array(segment, { maxLength: 8 }).map((segments) => `/${segments.join("/")}`),
  string(),
);

test.each([
  ["/home/me/project", posix],
  ["/", posix],
  ["C:\\Users\\me\\project", win32],
  ["C:/Users/me/project", win32],
  ["\\\\server\\share\\project", win32],
])("[I13] no path leads out of %s, and a path that stays below the root keeps its meaning", (to, there) => {
  assert(
    property(path, (given) => {
      const found = confinePath(given, "/srv/api", to);
      const meant = posix.relative("/srv/api", posix.resolve("/srv/api", given));
      const leaves = meant === ".." || meant.startsWith("../");
      if (found === undefined) return;
      expect(leaves).toBe(false);
      const rest = there.relative(to, found);
      expect(there.isAbsolute(rest) || /^\.\.(?:[/\\]|$)/.test(rest)).toBe(false);
      // Every reading of the path stays below the client's directory, also that of the other system.
      expect(found.slice(to.length).split(/[/\\]/)).not.toContain("..");
      expect(rest.split(there.sep).join("/")).toBe(meant);
    }),
    propertyRuns(20_000),
  );
});

test("a path with plain names below the root is never refused", () => {
  const names = array(constantFrom("a", "b.ts", ".git", "src", "ä ö"), { maxLength: 6 });
  assert(
    property(names, constantFrom("/home/me", "C:\\me"), (segments, to) => {
      expect(confinePath(["/srv/api", ...segments].join("/"), "/srv/api", to)).toBeDefined();
    }),
    propertyRuns(2_000),
  );
});
