import { type Frame, paramsOf } from "../../../protocol/frame.ts";
import type { JsonObject } from "../../../protocol/json-value.ts";
import { allowsEverything, openingRefusals } from "../../../protocol/opening-rules.ts";
import { rebasePath } from "../../../protocol/rebase-path.ts";
import { BROUGHT_MEMBERS, type BroughtMember } from "../state/brought-members.ts";
import type { Run } from "../state/state.ts";
import type { Batch } from "./batch.ts";

/** The members of an opening that a client which loads or resumes the session brings along, in place of the first ones. */

/** The frame that has a member for the next process: the newest one that brought it, or the `session/new`. */
function frameWith(batch: Batch, member: BroughtMember): Frame | undefined {
  const { brought, identity } = batch.state;
  const seq = brought?.[member] ?? identity?.request;
  return seq == null ? undefined : batch.findFrame(seq)?.frame;
}

/**
 * The members of a load or resume that are not those of the session. `reveal` gives a frame of the log with its
 * credentials. A client without servers or directories of its own has an empty list, and takes none from the session:
 * somebody may only look after the session, on another machine.
 */
export function broughtBy(batch: Batch, given: Frame, reveal: (raw: string) => Frame): BroughtMember[] {
  if (given.method !== "session/load" && given.method !== "session/resume") return [];
  const params = paramsOf(given);
  return BROUGHT_MEMBERS.filter((member) => {
    const value = params[member];
    if (!Array.isArray(value) || value.length === 0) return false;
    const known = frameWith(batch, member);
    return !known || JSON.stringify(paramsOf(reveal(known.raw))[member]) !== JSON.stringify(value);
  });
}

/** The members that the workspace does not allow, each with the reason, as far as a process says so. */
export function refusedMembers(run: Run | null, params: JsonObject): { [Member in BroughtMember]?: string } {
  if (!run || allowsEverything(run.opening)) return {};
  const refusals = openingRefusals(params, run.opening, run.root);
  return Object.fromEntries(refusals.map(({ setting, message }) => [setting, message]));
}

/** The parameters for the next process, with paths of the host; `own` are those of the `session/new`. */
export function withBrought(batch: Batch, own: JsonObject, root: string): JsonObject {
  const { brought } = batch.state;
  if (!brought) return own;
  const params = { ...own };
  const servers = frameWith(batch, "mcpServers");
  if (servers) params.mcpServers = paramsOf(servers).mcpServers;
  const directories = frameWith(batch, "additionalDirectories");
  const there = directories && directoriesThere(paramsOf(directories), root);
  if (there) params.additionalDirectories = there;
  else if (directories && brought.additionalDirectories !== undefined)
    params.additionalDirectories = paramsOf(directories).additionalDirectories;
  return params;
}

/**
 * The client's additional directories with the host's paths. A directory within the client's `cwd` is part of the
 * workspace. Any other path stays as it is, because the host may have a directory of that name.
 */
export function directoriesThere(params: JsonObject, root: string): unknown[] | undefined {
  const { cwd, additionalDirectories: given } = params;
  if (typeof cwd !== "string" || cwd === "/" || !Array.isArray(given)) return undefined;
  const there = given.map((path: unknown) =>
    typeof path === "string" ? rebasePath(path, cwd, root) : undefined,
  );
  return there.some((path) => path !== undefined) ? given.map((path, i) => there[i] ?? path) : undefined;
}
