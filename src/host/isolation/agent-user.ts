import { readFileSync } from "node:fs";

/** Another user of this machine, as which agents run. */
export type AgentUser = { name: string; uid: number; gid: number; home: string };

/** Undefined if the system does not know the user. */
export function findUser(name: string, file = "/etc/passwd"): AgentUser | undefined {
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [known, , uid, gid, , home = "/"] = line.split(":");
    if (known === name && uid && gid) return { name, uid: Number(uid), gid: Number(gid), home };
  }
  return undefined;
}

/** The host's environment as the agent's user has it: directories of the host's user would be out of reach. */
export function environmentOf(user: AgentUser | undefined, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (!user) return env;
  const kept = Object.entries(env).filter(([name]) => !name.startsWith("XDG_"));
  return { ...Object.fromEntries(kept), HOME: user.home, USER: user.name, LOGNAME: user.name };
}

/** Runs a command as the user, without any privilege and without a way to get one. */
export function asUser(setpriv: string, { uid, gid }: AgentUser): string[] {
  const identity = [`--reuid=${uid}`, `--regid=${gid}`, "--init-groups"];
  const powers = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"];
  return [setpriv, ...identity, ...powers, "--"];
}
