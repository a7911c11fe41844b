import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { openDirectoryBeneath } from "../../../../src/host/io/open-beneath.ts";
import * as textFiles from "../../../../src/host/io/text-files.ts";
import { resolveInWorkspace } from "../../../../src/host/io/workspace-path.ts";
import { HiddenPaths } from "../../../../src/host/isolation/hidden-paths.ts";
import { temporaryDirectory } from "../../../fixtures/temporary-directory.ts";

type Params<Use extends (files: textFiles.AgentFiles, params: never) => unknown> = Parameters<Use>[1];

const readTextFile = (root: string, params: Params<typeof textFiles.readTextFile>) =>
  textFiles.readTextFile({ root, hidden: new HiddenPaths(root) }, params);
const writeTextFile = (root: string, params: Params<typeof textFiles.writeTextFile>) =>
  textFiles.writeTextFile({ root, hidden: new HiddenPaths(root) }, params);

/** A workspace beside a file that is outside of it. */
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
  ])("returns the lines of the range %j", async (range, content) => {
    const { root } = workspace();
    expect(await readTextFile(root, { path: "file", ...range })).toEqual({ content });
    expect(await readTextFile(root, { path: join(root, "file"), ...range })).toEqual({ content });
  });

  test("is refused if the file does not exist", async () => {
    const { root } = workspace();
    const missing = { code: -32002, message: expect.stringContaining("no such file") };
    await expect(readTextFile(root, { path: "none" })).rejects.toMatchObject(missing);
    await expect(readTextFile(root, { path: "file/none" })).rejects.toMatchObject(missing);
  });

  test("is refused if the file is too large or not a regular file", async () => {
    const { root } = workspace();
    const wrong = { code: -32602 };
    await expect(readTextFile(root, { path: "." })).rejects.toMatchObject(wrong);
    execFileSync("sh", ["-c", 'mkfifo "$0"', join(root, "pipe")]);
    await expect(readTextFile(root, { path: "pipe" })).rejects.toMatchObject(wrong);
    writeFileSync(join(root, "huge"), "");
    truncateSync(join(root, "huge"), 10 * 1024 * 1024 + 1);
    await expect(readTextFile(root, { path: "huge" })).rejects.toMatchObject(wrong);
  });

  test("returns the readable part of a binary file", async () => {
    const { root } = workspace();
    writeFileSync(join(root, "binary"), Buffer.from([0, 0xff, 0x61]));
    expect(await readTextFile(root, { path: "binary" })).toEqual({ content: "\0\ufffda" });
  });
});

describe("writing a file", () => {
  test("replaces the file and creates missing directories", async () => {
    const { root } = workspace();
    await writeTextFile(root, { path: "file", content: "é" });
    await writeTextFile(root, { path: join(root, "a/b/c"), content: "new" });
    expect(readFileSync(join(root, "file"), "utf8")).toBe("é");
    expect(readFileSync(join(root, "a/b/c"), "utf8")).toBe("new");
  });

  test("keeps the mode of the file and leaves no temporary file behind", async () => {
    const { root } = workspace();
    chmodSync(join(root, "file"), 0o754);
    await writeTextFile(root, { path: "file", content: "x" });
    expect(statSync(join(root, "file")).mode & 0o777).toBe(0o754);
    expect(readdirSync(root)).toEqual(["file"]);
  });

  test("follows a link within the workspace to the link's target", async () => {
    const { root } = workspace();
    mkdirSync(join(root, "directory"));
    symlinkSync("file", join(root, "link"));
    symlinkSync("directory", join(root, "to-directory"));
    await writeTextFile(root, { path: "link", content: "x" });
    await writeTextFile(root, { path: "to-directory/new", content: "y" });
    expect(readFileSync(join(root, "file"), "utf8")).toBe("x");
    expect(readFileSync(join(root, "directory/new"), "utf8")).toBe("y");
    expect(readdirSync(root).sort()).toEqual(["directory", "file", "link", "to-directory"]);
  });

  test("is never visible half done", async () => {
    const { root } = workspace();
    const versions = ["a", "b"].map((letter) => letter.repeat(3_000_000));
    writeFileSync(join(root, "file"), versions[0] as string);
    for (let n = 0; n < 10; n++) {
      const writing = writeTextFile(root, { path: "file", content: versions[n % 2] as string });
      for (let looks = 0; looks < 5; looks++) {
        const { content } = await readTextFile(root, { path: "file" });
        // toContain would print megabytes.
        expect(versions.includes(content)).toBe(true);
      }
      await writing;
    }
  });

  test.each([".", "pipe", "directory", "file/below", "/dev/null"])("to %s is refused", async (path) => {
    const { root } = workspace();
    mkdirSync(join(root, "directory"));
    execFileSync("sh", ["-c", 'mkfifo "$0"', join(root, "pipe")]);
    const wrong = { code: -32602 };
    await expect(writeTextFile(root, { path, content: "x" })).rejects.toMatchObject(wrong);
    expect(readdirSync(root).sort()).toEqual(["directory", "file", "pipe"]);
  });
});

describe("the limits of a workspace's directory", () => {
  const outside = { code: -32602, message: expect.stringContaining("outside the workspace") };

  async function refused(root: string, path: string, fault: object = outside): Promise<void> {
    await expect(readTextFile(root, { path })).rejects.toMatchObject(fault);
    await expect(writeTextFile(root, { path, content: "x" })).rejects.toMatchObject(fault);
  }

  test("an absolute path cannot leave the workspace", async () => {
    const { root, secret } = workspace();
    await refused(root, secret);
    await refused(root, `${root}-twin/file`);
    await refused(root, "/no/such/place");
    expect(readFileSync(secret, "utf8")).toBe("secret");
  });

  test("a path with `..` cannot leave the workspace", async () => {
    const { root } = workspace();
    await refused(root, "../secret");
    await refused(root, "a/../../secret");
    await refused(root, "..");
  });

  test("a symbolic link to a file, a directory or nothing cannot leave the workspace", async () => {
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

  test("a path with a null character or to /proc/self is refused", async () => {
    const { root } = workspace();
    await refused(root, "file\0/../../secret", { code: -32602 });
    await refused(root, "/proc/self/environ");
    await refused(root, `/proc/${process.pid}/root/etc/hostname`);
  });

  test("links that form a circle are refused", async () => {
    const { root } = workspace();
    symlinkSync("b", join(root, "a"));
    symlinkSync("a", join(root, "b"));
    await expect(readTextFile(root, { path: "a" })).rejects.toThrow();
    await expect(writeTextFile(root, { path: "a", content: "x" })).rejects.toThrow();
  });

  test("a directory that becomes a link between the check and the use is not followed", async () => {
    const { root, outside, place, swap } = await checked();
    swap();
    await expect(openDirectoryBeneath(root, dirname(place), false)).rejects.toThrow();
    await expect(openDirectoryBeneath(root, dirname(place), true)).rejects.toMatchObject({ code: -32602 });
    await expect(openDirectoryBeneath(root, join(dirname(place), "new"), true)).rejects.toMatchObject({
      code: -32602,
    });
    expect(readdirSync(outside)).toEqual(["file"]);
  });

  test("a directory that becomes a link while it is open is not followed", async () => {
    const { root, place, swap } = await checked();
    const held = await openDirectoryBeneath(root, dirname(place), false);
    swap();
    expect(readFileSync(place, "utf8")).toBe("secret");
    expect(readFileSync(join(held.path, "file"), "utf8")).toBe("mine");
    await held.close();
  });

  /** A path that passed the check, and a function that makes it lead outside. */
  async function checked() {
    const { root } = workspace();
    const outside = join(root, "../outside");
    for (const directory of [outside, join(root, "d")]) mkdirSync(directory);
    writeFileSync(join(outside, "file"), "secret");
    writeFileSync(join(root, "d/file"), "mine");
    const place = await resolveInWorkspace(root, "d/file");
    const swap = () => {
      renameSync(join(root, "d"), join(root, "e"));
      symlinkSync(outside, join(root, "d"));
    };
    return { root, outside, place, swap };
  }

  test("a name may begin with two dots, and links may stay within the workspace", async () => {
    const { root } = workspace();
    symlinkSync(join(root, "file"), join(root, "link"));
    await writeTextFile(root, { path: "..hidden", content: "x" });
    expect(await readTextFile(root, { path: "link", limit: 1 })).toEqual({ content: "one" });
  });
});

describe("a hidden directory", () => {
  test("of the workspace is missing for reading and writing, by any path", async () => {
    const { root } = workspace();
    const state = join(root, ".state");
    mkdirSync(state);
    writeFileSync(join(state, "key"), "secret");
    symlinkSync(state, join(root, "link"));
    const files = { root, hidden: new HiddenPaths(root, [state]) };
    for (const path of [".state/key", "link/key", ".state/../.state/key"]) {
      await expect(textFiles.readTextFile(files, { path })).rejects.toMatchObject({ code: -32002 });
      await expect(textFiles.writeTextFile(files, { path, content: "x" })).rejects.toMatchObject({
        code: -32002,
      });
    }
    expect(readFileSync(join(state, "key"), "utf8")).toBe("secret");
    expect(await textFiles.readTextFile(files, { path: "file" })).toMatchObject({
      content: expect.stringContaining("one"),
    });
  });

  test("around the workspace leaves the workspace visible", async () => {
    const { root } = workspace();
    const files = { root, hidden: new HiddenPaths(root, [dirname(root)]) };
    expect(await textFiles.readTextFile(files, { path: "file", limit: 1 })).toEqual({ content: "one" });
  });
});

describe.runIf(process.getuid?.() === 0)("a host that may do more than its agents", () => {
  const user = { name: "nobody", uid: 65_534, gid: 65_534, home: "/" };

  test("reads and writes no more than they may, and makes files theirs", async () => {
    const { root } = workspace();
    const files = { root, hidden: new HiddenPaths(root), user };
    chownSync(root, user.uid, user.gid);
    writeFileSync(join(root, "private"), "secret", { mode: 0o600 });
    await expect(textFiles.readTextFile(files, { path: "private" })).rejects.toThrow("permission denied");
    await expect(textFiles.writeTextFile(files, { path: "file", content: "x" })).rejects.toThrow(
      "permission denied",
    );
    expect(await textFiles.readTextFile(files, { path: "file", limit: 1 })).toEqual({ content: "one" });
    await textFiles.writeTextFile(files, { path: "new/own", content: "x" });
    for (const path of ["new", "new/own"]) expect(statSync(join(root, path)).uid).toBe(user.uid);
    mkdirSync(join(root, "roots"));
    await expect(textFiles.writeTextFile(files, { path: "roots/own", content: "x" })).rejects.toThrow(
      "permission denied",
    );
  });
});
