import { expect, test } from "vitest";
import { visibleUri } from "../../../src/protocol/visible-uri.ts";

test.each([
  ["file:///home/me/a.txt", "file:///home/me/a.txt"],
  ["https://x.example:8080/a@b/c", "https://x.example:8080/a@b/c"],
  ["https://x.example/a?key=1#part", "https://x.example/a"],
  ["https://x.example/a#part?key=1", "https://x.example/a"],
  ["https://me:secret@x.example/a", "https://x.example/a"],
  ["https://me:se@cret@x.example", "https://x.example"],
  ["https://x.example?to=a@b", "https://x.example"],
  ["data:text/plain,contents", "data:"],
  ["DATA:;base64,AAAA", "DATA:"],
  ["mailto:me@x.example", "mailto:"],
  ["zed+ext://thing/1?x", "zed+ext://thing/1"],
  ["src/a.ts", "src/a.ts"],
  ["/src/@types/a.ts?x", "/src/@types/a.ts"],
  ["C:\\\\src\\a.ts", "C:\\\\src\\a.ts"],
  ["", ""],
])("%s is shown as %s", (uri, shown) => {
  expect(visibleUri(uri)).toBe(shown);
});
