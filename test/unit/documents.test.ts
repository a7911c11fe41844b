import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));

const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  cwd: PROJECT,
  encoding: "utf8",
})
  .trim()
  .split("\n")
  .filter((file) => existsSync(join(PROJECT, file)));
const documents = files.filter((file) => file.endsWith(".md"));
const read = (file: string) => readFileSync(join(PROJECT, file), "utf8");
const linesOf = (file: string) => read(file).trimEnd().split("\n");

/** The rooms of src/: documents name files by their path from there. */
const ROOMS = new Set(
  files.filter((file) => /^src\/[^/]+\//.test(file)).map((file) => file.split("/")[1] as string),
);

/** The anchors that headings of a document have. */
function anchorsOf(text: string): Set<string> {
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading ?? "");
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\w\- ]/g, "")
        .replaceAll(" ", "-"),
    ),
  );
}

describe.each(documents)("%s", (document) => {
  const text = read(document);

  test("links to files and headings that exist", () => {
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)];
    const broken = links.filter(([, path = "", anchor]) => {
      const target = path === "" ? document : join(dirname(document), path);
      if (!existsSync(join(PROJECT, target))) return true;
      return anchor !== undefined && !anchorsOf(read(target)).has(anchor);
    });
    expect(broken.map(([link]) => link)).toEqual([]);
  });

  test("names files and folders that exist", () => {
    const named = [...text.matchAll(/`((?:src|test|docs|migrations)\/[^`\s*<>:]+|[a-z-]+\/[^`\s*<>:]*)`/g)]
      .map(([, path = ""]) => path)
      .filter((path) => /^(src|test|docs|migrations)\//.test(path) || ROOMS.has(path.split("/")[0] ?? ""))
      // A room in a sentence about another project, or a media type, is no path of ours.
      .filter((path) => path.endsWith("/") || /\.[a-z]+$/.test(path));
    const missing = named.filter(
      (path) => !existsSync(join(PROJECT, path)) && !existsSync(join(PROJECT, "src", path)),
    );
    expect(missing).toEqual([]);
  });
});

test("the README is a door of at most 150 lines", () => {
  expect(linesOf("README.md").length).toBeLessThanOrEqual(150);
});

test("the architecture fits on 220 lines", () => {
  expect(linesOf("ARCHITECTURE.md").length).toBeLessThanOrEqual(220);
});

describe("source files", () => {
  const sources = files.filter((file) => /^src\/.*\.ts$/.test(file));

  test("have at most 400 lines", () => {
    expect(sources.filter((file) => linesOf(file).length > 400)).toEqual([]);
  });

  test("have no comment that begins with a reference to the comment above", () => {
    const found = sources.flatMap((file) =>
      linesOf(file)
        .filter((line) => /^\s*(\/\/|\/?\*+)\s*The same\b/.test(line))
        .map((line) => `${file}: ${line.trim()}`),
    );
    expect(found).toEqual([]);
  });
});

test("test files have at most 500 lines", () => {
  const tests = files.filter((file) => /^test\/.*\.ts$/.test(file));
  expect(tests.filter((file) => linesOf(file).length > 500)).toEqual([]);
});
