import { basename, dirname } from "node:path";
import type { HiddenEntry } from "./hidden-paths.ts";
import { shellWord } from "./shell-word.ts";

/** Programs that make namespaces, as absolute paths. */
export type NamespaceTools = { unshare: string; mount: string; setpriv: string | undefined };

export type Surroundings = {
  root: string;
  hidden: readonly HiddenEntry[];
  /** The user and group that the process keeps inside. */
  uid: number;
  gid: number;
  /** The program `stat`, as an absolute path. */
  stat: string;
};

/** Files by which root changes the whole machine, even without capabilities. */
const MACHINE_FILES = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/sys"];

/**
 * Root without a user namespace: another one would take away the right to files of other users. Only capabilities that
 * programs such as package managers use are left. None of them can unmount or look into another process.
 */
const CAPABILITIES = [
  "chown",
  "dac_override",
  "fowner",
  "fsetid",
  "kill",
  "setgid",
  "setuid",
  "net_bind_service",
  "net_raw",
];

/**
 * A process namespace with a /proc of its own; everything else is as outside, except the hidden paths. All processes end
 * with the host and with the first process.
 */
export function bubblewrap(bwrap: string, { root, hidden, uid, stat }: Surroundings): string[] {
  const masks = hidden.map(({ path, isDirectory, isAroundRoot }) => [
    ...(isDirectory ? ["--tmpfs", path] : ["--ro-bind", "/dev/null", path]),
    ...(isAroundRoot ? ["--bind", root, root] : []),
  ]);
  const powers =
    uid === 0
      ? // Root could read the disks.
        [
          "--dev",
          "/dev",
          "--cap-drop",
          "ALL",
          ...CAPABILITIES.flatMap((name) => ["--cap-add", `CAP_${name.toUpperCase()}`]),
        ]
      : ["--unshare-user"];
  return [
    bwrap,
    "--dev-bind",
    "/",
    "/",
    ...powers,
    "--unshare-pid",
    "--proc",
    "/proc",
    ...(uid === 0 ? MACHINE_FILES.flatMap((path) => ["--ro-bind-try", path, path]) : []),
    ...masks.flat(),
    "--die-with-parent",
    "--",
    ...verified(hidden, stat),
  ];
}

/** The namespace of `bubblewrap`, made by util-linux. Its first process is a shell: an agent would not reap orphans. */
export function unshared(tools: NamespaceTools, surroundings: Surroundings): string[] {
  const { unshare, setpriv } = tools;
  const { uid, hidden, stat } = surroundings;
  const identity = uid === 0 ? [] : ["--user", "--map-root-user"];
  const ending = setpriv !== undefined ? [setpriv, "--pdeathsig=KILL", "--"] : [];
  const namespaces = [unshare, ...identity, "--mount", "--pid", "--fork", "--kill-child", "--"];
  return [
    ...ending,
    ...namespaces,
    "/bin/sh",
    "-c",
    setup(tools, surroundings),
    "sh",
    ...verified(hidden, stat),
  ];
}

/**
 * Starts a command only if the hidden paths are covered in the namespace: another process may have renamed a directory
 * above them while the namespace was made, and then the cover is elsewhere. A hidden path that is missing from its own
 * directory was deleted with its cover, by its owner: no agent can rename what is covered in the agent's namespace.
 */
function verified(hidden: readonly HiddenEntry[], stat: string): string[] {
  if (hidden.length === 0) return [];
  const checks = hidden.map(({ path, id, parentId }) => {
    // Inside the directory no rename matters any more.
    const look = `cd ${shellWord(dirname(path))} && set -- $(${shellWord(stat)} -c %d:%i . ${shellWord(`./${basename(path)}`)} 2>/dev/null)`;
    const isCovered = `[ "$1" = ${parentId} ] && [ "$2" != ${id} ]`;
    return `(${look} && ${isCovered}) || { echo ${shellWord(`${path} cannot be hidden, because it was moved`)} >&2; exit 126; }`;
  });
  return ["/bin/sh", "-c", [...checks, 'exec "$@"'].join("\n"), "sh"];
}

function setup({ mount, unshare, setpriv }: NamespaceTools, surroundings: Surroundings): string {
  const { root, hidden, uid, gid } = surroundings;
  const mounting = shellWord(mount);
  const here = shellWord(root);
  const masks = hidden.flatMap(({ path, isDirectory, isAroundRoot }) => [
    // The owner may have deleted the path meanwhile. A path that was moved instead is noticed below.
    `[ ! -e ${shellWord(path)} ] || ${isDirectory ? `${mounting} -t tmpfs -o mode=0755 none` : `${mounting} --bind /dev/null`} ${shellWord(path)}`,
    // The workspace is reached through the shell's directory, because its path leads into the empty directory now.
    ...(isAroundRoot ? [`mkdir -p ${here}`, `${mounting} -c --bind . ${here}`] : []),
  ]);
  // A second user namespace has no power over the mounts of the first.
  const enter =
    uid === 0
      ? `${shellWord(setpriv ?? "setpriv")} --no-new-privs --inh-caps=-all --bounding-set=-all,${CAPABILITIES.map((name) => `+${name}`).join(",")} --`
      : `${shellWord(unshare)} --user --map-user=${uid} --map-group=${gid} --`;
  return [
    "set -e",
    'back="$(pwd)"',
    `${mounting} -t proc proc /proc`,
    `cd ${here}`,
    ...(uid === 0
      ? [
          `for d in /sys/class/block/*; do b="/dev/\${d##*/}"; [ ! -b "$b" ] || ${mounting} --bind /dev/null "$b"; done`,
          ...MACHINE_FILES.map((path) => `[ ! -e ${path} ] || ${mounting} --rbind ${path} ${path}`),
          `while read -r _ _ _ _ at _; do case "$at" in ${MACHINE_FILES.flatMap((path) => [path, `${path}/*`]).join("|")}) ${mounting} -o remount,bind,ro "$at";; esac; done < /proc/self/mountinfo`,
        ]
      : []),
    ...masks,
    'cd "$back"',
    `${enter} "$@"`,
    "exit $?",
  ].join("\n");
}
