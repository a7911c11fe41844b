import { spawnSync } from "node:child_process";
import { findProcess } from "../os/linux-processes.ts";
import { type AgentUser, asUser, findUser } from "./agent-user.ts";
import { findProgram } from "./find-program.ts";
import type { HiddenPaths } from "./hidden-paths.ts";
import { Isolation, type NamespaceKind, type Wrapper } from "./isolation.ts";
import { bubblewrap, unshared } from "./namespaces.ts";
import { PROBE } from "./probe.ts";

/** `auto` takes the best that works, `require` fails if nothing works; the others name what has to work. */
export const ISOLATION_CHOICES = ["auto", "require", "user", "bwrap", "unshare", "none"] as const;
export type IsolationChoice = (typeof ISOLATION_CHOICES)[number];

export type IsolationWish = {
  choice: IsolationChoice;
  /** The name of the user that agents run as. */
  user?: string | undefined;
  /** The workspace's directory, a real path. */
  root: string;
  hidden: HiddenPaths;
};

/** The machine cannot isolate agents as the operator demands. */
export class NoIsolation extends Error {}

const PROBE_MS = 20_000;

type Attempt = { isolation: Isolation } | { reason: string };

/**
 * The isolation for the agents of this host. Each kind is tried by running a process that tries to read what it must
 * not read. Throws `NoIsolation` if the wish cannot be fulfilled. `trouble` says what is weaker than it could be.
 */
export function chooseIsolation(
  wish: IsolationWish,
  env: NodeJS.ProcessEnv,
): { isolation: Isolation; trouble: readonly string[] } {
  const { choice, root, hidden } = wish;
  if (choice === "none") return { isolation: Isolation.none(root, hidden), trouble: [] };
  const reasons: string[] = [];
  const attempt = (tried: Attempt): Isolation | undefined => {
    if ("isolation" in tried) return tried.isolation;
    reasons.push(tried.reason);
    return undefined;
  };
  const user = wish.user === undefined ? undefined : findUser(wish.user);
  if (wish.user !== undefined && !user) throw new NoIsolation(`there is no user ${wish.user}`);
  if (user && user.uid === process.getuid?.())
    throw new NoIsolation(`${user.name} is the user of the host itself`);
  if (choice === "user" && !user) throw new NoIsolation("--isolation user needs --agent-user");

  const kinds: readonly NamespaceKind[] =
    choice === "user" ? [] : choice === "bwrap" || choice === "unshare" ? [choice] : ["bwrap", "unshare"];
  const alone = user && attempt(tryUser(user, wish, env));
  // An operator who names a user does not want agents to run as another one.
  if (user && !alone) throw new NoIsolation(reasons.join("; "));
  for (const kind of kinds) {
    const isolation = attempt(tryNamespace(kind, user, wish, env));
    if (isolation) return { isolation, trouble: reasons };
  }
  if (choice === "bwrap" || choice === "unshare") throw new NoIsolation(reasons.join("; "));
  if (alone) return { isolation: alone, trouble: reasons };
  if (choice === "require") throw new NoIsolation(reasons.join("; "));
  return { isolation: Isolation.none(root, hidden), trouble: reasons };
}

/** One line for the operator. */
export function describeIsolation({ name, user, namespace }: Isolation, trouble: readonly string[]): string {
  const why = trouble.length === 0 ? "" : ` (${trouble.join("; ")})`;
  if (name === "none")
    return `WARNING: agents are NOT isolated: they can read the host's memory, its token and each other's keys${why}`;
  const limits = [
    namespace === undefined && "agents share a user, and can read each other's keys",
    user === undefined &&
      process.getuid?.() === 0 &&
      "agents run as root: name another user with --agent-user",
  ].filter(Boolean);
  return [`agents are isolated by ${name}${why}`, ...limits].join("; ");
}

function tryUser(user: AgentUser, { root, hidden }: IsolationWish, env: NodeJS.ProcessEnv): Attempt {
  const setpriv = findProgram("setpriv", env.PATH);
  if (setpriv === undefined) return { reason: "user: setpriv is not installed" };
  return probe(new Isolation({ user, hidden, wrapper: () => asUser(setpriv, user) }), root);
}

function tryNamespace(
  kind: NamespaceKind,
  user: AgentUser | undefined,
  { root, hidden }: IsolationWish,
  env: NodeJS.ProcessEnv,
): Attempt {
  if (process.platform !== "linux") return { reason: `${kind}: only Linux has namespaces` };
  const find = (name: string) => findProgram(name, env.PATH);
  const [bwrap, unshare, mount, setpriv] = [find("bwrap"), find("unshare"), find("mount"), find("setpriv")];
  const { uid, gid } = user ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  // Another user has no access to the hidden paths, and could not cover them either.
  const covered = user ? hidden.without() : hidden;
  const first = user && setpriv !== undefined ? asUser(setpriv, user) : [];
  // Without the program the probe fails, because no process can verify what is hidden.
  const stat = find("stat") ?? "stat";
  const surroundings = () => ({ root, hidden: covered.existing, uid, gid, stat });
  let wrapper: Wrapper;
  if (kind === "bwrap") {
    if (bwrap === undefined) return { reason: "bwrap: bubblewrap is not installed" };
    wrapper = () => [...first, ...bubblewrap(bwrap, surroundings())];
  } else {
    if (unshare === undefined || mount === undefined)
      return { reason: "unshare: util-linux is not installed" };
    wrapper = () => [...first, ...unshared({ unshare, mount, setpriv }, surroundings())];
  }
  return probe(new Isolation({ user, namespace: kind, hidden, wrapper }), root);
}

/** Runs a process that tries to read the host's environment and the hidden paths, and to write to the workspace. */
function probe(isolation: Isolation, root: string): Attempt {
  const host = { pid: process.pid, startedAt: findProcess(process.pid)?.startedAt ?? "" };
  const question = JSON.stringify({
    host,
    hidden: isolation.hidden.existing.map(({ path }) => path),
    root,
    alone: isolation.namespace !== undefined,
  });
  const [file, ...args] = isolation.command([process.execPath, "-e", PROBE, question]);
  const env = isolation.environment({ PATH: process.env.PATH });
  const { status, stdout, stderr, error } = spawnSync(file, args, {
    cwd: root,
    env,
    timeout: PROBE_MS,
    encoding: "utf8",
  });
  if (status === 0 && stdout.trim() === "isolated") return { isolation };
  const detail =
    error?.message ?? (stdout.trim() || stderr.trim().split("\n").at(-1) || `exit code ${status}`);
  return { reason: `${isolation.name}: ${detail}` };
}
