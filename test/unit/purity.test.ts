import { posix } from "node:path";
import { describe, expect, test } from "vitest";
import { sourceFiles, sourceText } from "../fixtures/source-files.ts";

/** The imports of a file: paths from the root of the repository, or names of packages. */
function importsOf(file: string): string[] {
  const specifiers = [...sourceText(file).matchAll(/(?:from|import)\s*\(?"([^"]+)"/g)].map(
    ([, name]) => name,
  );
  return specifiers.map((name = "") => (name.startsWith(".") ? posix.join(posix.dirname(file), name) : name));
}

/** The code of a file without comments and string literals. */
function codeOf(file: string): string {
  return sourceText(file)
    .replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "")
    .replace(/"(?:[^"\\\n]|\\.)*"/g, '""');
}

const isOurs = (path: string) => path.startsWith("src/");
const isPlatform = (path: string) => path.startsWith("cloudflare:") || path.startsWith("node:");

describe("the core", () => {
  test.each(sourceFiles("src/protocol"))("[I10] %s imports nothing of ours outside protocol/", (file) => {
    const imports = importsOf(file);
    expect(imports.filter((path) => isOurs(path) && !path.startsWith("src/protocol/"))).toEqual([]);
    expect(imports.filter(isPlatform)).toEqual([]);
  });

  test.each(sourceFiles("src/session/core"))("[I10] %s is pure", (file) => {
    const imports = importsOf(file);
    const allowed = /^src\/(protocol|session\/core)\//;
    expect(imports.filter((path) => isOurs(path) && !allowed.test(path))).toEqual([]);
    expect(imports.filter(isPlatform)).toEqual([]);
    const platform =
      /\b(Date\.now|Math\.random|crypto|console|Env|SqlStorage|WebSocket|setTimeout)\b|new Date\(\)/;
    expect(platform.exec(codeOf(file))?.[0]).toBeUndefined();
  });
});
