import { expect, test } from "vitest";
import { rebasePath } from "../../../src/protocol/rebase-path.ts";

test.each([
  ["/srv/api/src/a.ts", "/srv/api", "/home/me/api", "/home/me/api/src/a.ts"],
  ["/srv/api", "/srv/api", "/home/me/api", "/home/me/api"],
  ["/srv/api/a", "/srv/api/", "/home/me/api/", "/home/me/api/a"],
  ["/srv/api/a/b", "/srv/api", "C:\\work\\api", "C:\\work\\api\\a\\b"],
  ["C:\\work\\api\\a\\b", "C:\\work\\api", "/srv/api", "/srv/api/a/b"],
  ["/srv/api/a", "/srv/api", "/", "/a"],
  ["/srv/api-2/a", "/srv/api", "/home", undefined],
  ["/etc/passwd", "/srv/api", "/home", undefined],
  ["a", "/srv/api", "/home", undefined],
])("the path %s below %s moves below %s as %s", (path, from, to, there) => {
  expect(rebasePath(path, from, to)).toBe(there);
});
