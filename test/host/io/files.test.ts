import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readTextFile, writeTextFile } from "../../../src/host/io/files.ts";
import { temporaryDirectory } from "../harness.ts";

/** A workspace next to a file that is none of its business. */
function workspace(): { root: string; secret: string } {
  const directory = temporaryDirectory();
  const root = join(directory, "workspace");
  const secret = join(directory, "secret");
  mkdirSync(root);
  writeFileSync(secret, "secret");
  writeFileSync(join(root, "file"), "one\ntwo\nthree\n");
  return { root, secret };
}

describe("reading a file", () => {
  test.each([
    [{}, "one\ntwo\nthree\n"],
    [{ line: 2 }, "two\nthree\n"],
    [{ line: 2, limit: 1 }, "two"],
    [{ limit: 2 }, "one\ntwo"],
    [{ line: null, limit: null }, "one\ntwo\nthree\n"],
    [{ line: 99 }, ""],
    [{ limit: 0 }, ""],
  ])("with %j", async (range, content) => {
    const { root } = workspace();
    expect(await readTextFile(root, { path: "file", ...range })).toEqual({ content });
    expect(await readTextFile(root, { path: join(root, "file"), ...range })).toEqual({ content });
  });

  test("that does not exist", async () => {
    const { root } = workspace();
    const missing = { code: -32002, message: expect.stringContaining("no such file") };
    await expect(readTextFile(root, { path: "none" })).rejects.toMatchObject(missing);
    await expect(readTextFile(root, { path: "file/none" })).rejects.toMatchObject(missing);
  });

  test("that is no file, or too large", async () => {
    const { root } = workspace();
    const wrong = { code: -32602 };
    await expect(readTextFile(root, { path: "." })).rejects.toMatchObject(wrong);
    execFileSync("sh", ["-c", 'mkfifo "$0"', join(root, "pipe")]);
    await expect(readTextFile(root, { path: "pipe" })).rejects.toMatchObject(wrong);
    writeFileSync(join(root, "huge"), "");
    truncateSync(join(root, "huge"), 10 * 1024 * 1024 + 1);
    await expect(readTextFile(root, { path: "huge" })).rejects.toMatchObject(wrong);
  });

  test("that is binary gives what can be read of it", async () => {
    const { root } = workspace();
    writeFileSync(join(root, "binary"), Buffer.from([0, 0xff, 0x61]));
    expect(await readTextFile(root, { path: "binary" })).toEqual({ content: "\0\ufffda" });
  });
});

describe("writing a file", () => {
  test("replaces it, and creates the directories on the way", async () => {
    const { root } = workspace();
    await writeTextFile(root, { path: "file", content: "é" });
    await writeTextFile(root, { path: join(root, "a/b/c"), content: "new" });
    expect(readFileSync(join(root, "file"), "utf8")).toBe("é");
    expect(readFileSync(join(root, "a/b/c"), "utf8")).toBe("new");
  });
});

describe("the workspace is not left", () => {
  const outside = { code: -32602, message: expect.stringContaining("outside the workspace") };

  async function refused(root: string, path: string, fault: object = outside): Promise<void> {
    await expect(readTextFile(root, { path })).rejects.toMatchObject(fault);
    await expect(writeTextFile(root, { path, content: "x" })).rejects.toMatchObject(fault);
  }

  test("by an absolute path", async () => {
    const { root, secret } = workspace();
    await refused(root, secret);
    await refused(root, `${root}-twin/file`);
    await refused(root, "/no/such/place");
    expect(readFileSync(secret, "utf8")).toBe("secret");
  });

  test("by going up", async () => {
    const { root } = workspace();
    await refused(root, "../secret");
    await refused(root, "a/../../secret");
    await refused(root, "..");
  });

  test("by a symbolic link to a file, a directory, or nothing yet", async () => {
    const { root, secret } = workspace();
    symlinkSync(secret, join(root, "link"));
    symlinkSync(join(root, ".."), join(root, "up"));
    symlinkSync(join(root, "../not-yet"), join(root, "dangling"));
    await refused(root, "link");
    await refused(root, "up/secret");
    await refused(root, "up/new/file");
    await refused(root, "dangling", { code: -32602 });
    expect(readFileSync(secret, "utf8")).toBe("secret");
  });

  test("though a name may begin with two dots, and links within are fine", async () => {
    const { root } = workspace();
    symlinkSync(join(root, "file"), join(root, "link"));
    await writeTextFile(root, { path: "..hidden", content: "x" });
    expect(await readTextFile(root, { path: "link", limit: 1 })).toEqual({ content: "one" });
  });
});
