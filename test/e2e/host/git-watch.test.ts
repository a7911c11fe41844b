import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseGitStatus } from "../../../src/host/os/git-status.ts";
import type { GitState } from "../../../src/protocol/host-wire.ts";
import type { FakeGateway } from "./fake-gateway.ts";
import { fixture, startHost } from "./harness.ts";

function git(root: string, ...args: string[]): string {
  const identity = [
    "-c",
    "user.name=test",
    "-c",
    "user.email=test@example.com",
    "-c",
    "commit.gpgsign=false",
  ];
  return execFileSync("git", [...identity, ...args], { cwd: root, encoding: "utf8" }).trim();
}

/** Waits until the host has reported a git state that matches. */
async function seen(gateway: FakeGateway, is: (state: GitState | null) => boolean): Promise<GitState | null> {
  const message = await gateway.until(() => gateway.said("workspace").find((one) => is(one.git)));
  return message.git;
}

describe("the host's report of its workspace", () => {
  test("has no git state without a repository, and follows a repository that is created and changed", async () => {
    const { gateway, root } = await startHost();
    const session = await gateway.open("s");
    expect(await seen(gateway, () => true)).toBeNull();

    git(root, "init", "-q", "-b", "main");
    writeFileSync(join(root, "a file.txt"), "a");
    // The activity of an agent makes the host check.
    session.tell("hello");
    expect(await seen(gateway, (state) => state !== null)).toEqual({
      branch: "main",
      head: null,
      ahead: null,
      behind: null,
      modifiedFiles: ["a file.txt"],
      modifiedCount: 1,
    });

    // From here on the watched git directory triggers the checks.
    git(root, "add", ".");
    git(root, "commit", "-qm", "one");
    const head = git(root, "rev-parse", "HEAD");
    expect(await seen(gateway, (state) => state?.head === head)).toMatchObject({ modifiedFiles: [] });
    git(root, "checkout", "-qb", "feature/x");
    await seen(gateway, (state) => state?.branch === "feature/x");
  });

  test("is sent only when the state of the workspace has changed", async () => {
    const { gateway, root } = await startHost();
    const session = await gateway.open("s");
    await seen(gateway, () => true);
    const known = gateway.said("workspace").length;
    for (let i = 0; i < 20; i += 1) {
      session.tell("hello");
      await gateway.until(() => session.frames.filter((frame) => frame.echo).length === i + 1);
    }
    git(root, "init", "-q", "-b", "main");
    session.tell("hello");
    await seen(gateway, (state) => state?.branch === "main");
    expect(gateway.said("workspace")).toHaveLength(known + 1);
  });

  test("has the number of the host's runs", async () => {
    const { gateway } = await startHost({ agents: [fixture("fixture")] });
    const session = await gateway.open("s");
    await gateway.until(() => gateway.said("load").some(({ runs }) => runs === 1));
    // A session can stop its run only when the run is connected.
    await gateway.until(() => session.hellos.length > 0);
    session.stop();
    await gateway.until(() => gateway.said("load").at(-1)?.runs === 0);
  });
});

describe("git status", () => {
  test("lists every kind of change in a real repository", async () => {
    const { root } = await startHost();
    git(root, "init", "-q", "-b", "main");
    for (const name of ["changed", "renamed", "deleted"]) writeFileSync(join(root, name), name.repeat(50));
    git(root, "add", ".");
    git(root, "commit", "-qm", "one");
    git(root, "branch", "upstream");
    git(root, "branch", "-q", "--set-upstream-to", "upstream");
    git(root, "commit", "-q", "--allow-empty", "-m", "two");
    writeFileSync(join(root, "changed"), "new");
    renameSync(join(root, "renamed"), join(root, "new name"));
    git(root, "rm", "-q", "deleted");
    git(root, "add", "-A");
    mkdirSync(join(root, "dir"));
    writeFileSync(join(root, "dir", "untracked"), "");
    const output = execFileSync("git", ["status", "--porcelain=v2", "--branch", "-z"], {
      cwd: root,
      encoding: "utf8",
    });
    expect(parseGitStatus(output)).toEqual({
      branch: "main",
      head: git(root, "rev-parse", "HEAD"),
      ahead: 1,
      behind: 0,
      modifiedFiles: ["changed", "deleted", "new name", "dir/"],
      modifiedCount: 4,
    });
    git(root, "checkout", "-q", "--detach");
    const detached = execFileSync("git", ["status", "--porcelain=v2", "--branch", "-z"], {
      cwd: root,
      encoding: "utf8",
    });
    expect(parseGitStatus(detached)).toMatchObject({ branch: null });
  });
});
