import { chownSync, readFileSync } from "node:fs";
import { findUser } from "../../../src/host/isolation/agent-user.ts";
import { chooseIsolation, type IsolationChoice } from "../../../src/host/isolation/choose-isolation.ts";
import { HiddenPaths } from "../../../src/host/isolation/hidden-paths.ts";
import type { Isolation } from "../../../src/host/isolation/isolation.ts";

export type Kind = { name: string; choice: IsolationChoice; user?: string };

const IS_ROOT = process.getuid?.() === 0;

/**
 * The kinds of isolation that this machine is expected to have: root can change to another user, and bubblewrap and
 * util-linux are installed for the tests.
 */
export const KINDS: readonly Kind[] = [
  { name: "bwrap", choice: "bwrap" },
  { name: "unshare", choice: "unshare" },
  ...(IS_ROOT
    ? [
        { name: "user", choice: "user" as const, user: "nobody" },
        { name: "user+bwrap", choice: "bwrap" as const, user: "nobody" },
        { name: "user+unshare", choice: "unshare" as const, user: "nobody" },
      ]
    : []),
];

/** Makes the isolation for a workspace, which belongs to the agents' user. */
export function isolate({ choice, user }: Kind, root: string, hidden: readonly string[] = []): Isolation {
  const owner = user === undefined ? undefined : findUser(user);
  if (owner) chownSync(root, owner.uid, owner.gid);
  return chooseIsolation({ choice, user, root, hidden: new HiddenPaths(root, hidden) }, process.env)
    .isolation;
}

/** Processes of this machine whose environment or command line contains a text, as root or as their own user. */
export function processesWith(pids: readonly number[], text: string): number[] {
  return pids.filter((pid) =>
    ["environ", "cmdline"].some((file) => {
      try {
        return readFileSync(`/proc/${pid}/${file}`, "utf8").includes(text);
      } catch {
        return false;
      }
    }),
  );
}
