import type { GitState } from "../../protocol/host-wire.ts";

export const GIT_STATUS = ["status", "--porcelain=v2", "--branch", "-z"];

/** The number of changed files that are named. The others are only counted. */
const FILES_NAMED = 100;

/** The number of fields before the path, by type of entry: changed, renamed or copied, unmerged, untracked. */
const FIELDS: Readonly<Record<string, number>> = { "1": 8, "2": 9, u: 10, "?": 1 };

/** Parses the stable format of `git status`: entries that end with NUL, headers first. */
export function parseGitStatus(output: string): GitState {
  const state: GitState = {
    branch: null,
    head: null,
    ahead: null,
    behind: null,
    modifiedFiles: [],
    modifiedCount: 0,
  };
  const entries = output.split("\0");
  for (let at = 0; at < entries.length; at += 1) {
    const entry = entries[at] as string;
    const kind = entry.slice(0, 1);
    if (kind === "#") readHeader(state, entry);
    const fields = FIELDS[kind];
    if (fields === undefined) continue;
    // The previous name of a renamed file is a separate entry.
    if (kind === "2") at += 1;
    state.modifiedCount += 1;
    if (state.modifiedFiles.length < FILES_NAMED) state.modifiedFiles.push(afterFields(entry, fields));
  }
  return state;
}

function readHeader(state: GitState, header: string): void {
  const [, name, ...values] = header.split(" ");
  const value = values.join(" ");
  if (name === "branch.oid" && value !== "(initial)") state.head = value;
  if (name === "branch.head" && value !== "(detached)") state.branch = value;
  if (name === "branch.ab") {
    const [ahead, behind] = values.map((count) => Math.abs(Number(count)));
    state.ahead = ahead ?? null;
    state.behind = behind ?? null;
  }
}

/** The path of an entry. It may contain spaces. */
function afterFields(entry: string, fields: number): string {
  let at = 0;
  for (let field = 0; field < fields; field += 1) at = entry.indexOf(" ", at) + 1;
  return entry.slice(at);
}
