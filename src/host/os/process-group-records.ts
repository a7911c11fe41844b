import { createHash, randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { reasonOf } from "../../node/log.ts";
import {
  findProcess,
  hasVariable,
  type LinuxProcess,
  listProcesses,
  processScope,
} from "./linux-processes.ts";
import { endGroup, type ProcessGroupListener } from "./process-group.ts";

/** Which host: the next one of the same name in the same place takes care of what this one leaves behind. */
export type HostIdentity = { workspace: string; name: string; root: string };

const RECORD = z.object({
  boot: z.string(),
  namespace: z.string(),
  mark: z.string(),
  host: z.object({ pid: z.int(), startedAt: z.string() }),
  groups: z.array(z.object({ leader: z.int().min(2), startedAt: z.string() })),
});
type GroupRecord = z.infer<typeof RECORD>;

/** All processes of a host's agents have this variable. */
const MARK = "ACP_EDGE_HOST_MARK";

/**
 * A file with the process groups of one host. A host that is killed cannot end its agents, and some of those do not
 * end by themselves; the next host does so before it starts any.
 */
export class ProcessGroupRecords implements ProcessGroupListener {
  /** For the environment of all that is started. */
  readonly variables: Readonly<Record<string, string>>;
  readonly #file: string;
  readonly #log: (event: string) => void;
  readonly #record: GroupRecord;

  /** Ends what earlier hosts have left. Undefined where processes cannot be told apart, or nothing can be written. */
  static async open(
    state: string,
    identity: HostIdentity,
    killAfterMs: number,
    log: (event: string) => void,
  ): Promise<ProcessGroupRecords | undefined> {
    const scope = processScope();
    const self = findProcess(process.pid);
    if (!scope || !self) return undefined;
    const directory = join(state, "hosts", digest(identity));
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      await endOrphans(directory, scope, killAfterMs, log);
      const host = { pid: self.pid, startedAt: self.startedAt };
      return new ProcessGroupRecords(directory, { ...scope, mark: randomUUID(), host, groups: [] }, log);
    } catch (error) {
      log(`processes that a crash leaves behind will not be found: ${reasonOf(error)}`);
      return undefined;
    }
  }

  private constructor(directory: string, record: GroupRecord, log: (event: string) => void) {
    this.#file = join(directory, `${record.mark}.json`);
    this.#record = record;
    this.#log = log;
    this.variables = { [MARK]: record.mark };
  }

  began(leader: number): void {
    const startedAt = findProcess(leader)?.startedAt;
    if (startedAt === undefined) return;
    this.#record.groups.push({ leader, startedAt });
    this.#write();
  }

  ended(leader: number): void {
    this.#record.groups = this.#record.groups.filter((group) => group.leader !== leader);
    this.#write();
  }

  /** All groups have ended. */
  close(): void {
    rmSync(this.#file, { force: true });
    try {
      rmdirSync(dirname(this.#file));
    } catch {
      // It has another record in it.
    }
  }

  #write(): void {
    try {
      mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
      writeFileSync(`${this.#file}.new`, JSON.stringify(this.#record));
      renameSync(`${this.#file}.new`, this.#file);
    } catch (error) {
      this.#log(`the record of processes cannot be written: ${reasonOf(error)}`);
    }
  }
}

export function defaultStateDirectory(env: NodeJS.ProcessEnv): string {
  return join(env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "acp-edge");
}

async function endOrphans(
  directory: string,
  scope: { boot: string; namespace: string },
  killAfterMs: number,
  log: (event: string) => void,
): Promise<void> {
  for (const name of readdirSync(directory)) {
    const file = join(directory, name);
    const record = readRecord(file);
    // Another container's, where the same numbers are other processes; or a host that lives.
    if (record?.boot === scope.boot && record.namespace !== scope.namespace) continue;
    if (record?.boot === scope.boot && lives(record.host)) continue;
    const groups = record?.boot === scope.boot ? orphansOf(record, listProcesses()) : [];
    if (groups.length > 0) log(`ending process groups that an earlier host has left: ${groups.join(", ")}`);
    await Promise.all(groups.map((leader) => endGroup(leader, killAfterMs)));
    rmSync(file, { force: true });
  }
}

/**
 * The groups of a record that still are what they were. A leader is known by when it was started. If it is gone,
 * its number cannot be another's while its group has members, but the whole group may have been replaced: then its
 * members do not have the mark.
 */
function orphansOf({ groups, mark }: GroupRecord, procs: readonly LinuxProcess[]): number[] {
  return groups
    .filter(({ leader, startedAt }) => {
      const found = procs.find(({ pid }) => pid === leader);
      if (found) return found.group === leader && found.startedAt === startedAt;
      return procs.some(({ pid, group }) => group === leader && hasVariable(pid, MARK, mark));
    })
    .map(({ leader }) => leader);
}

function lives({ pid, startedAt }: { pid: number; startedAt: string }): boolean {
  return findProcess(pid)?.startedAt === startedAt;
}

function readRecord(file: string): GroupRecord | undefined {
  try {
    return RECORD.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    // Half written by a host that was killed just then.
    return undefined;
  }
}

function digest({ workspace, name, root }: HostIdentity): string {
  return createHash("sha256")
    .update(JSON.stringify([workspace, name, root]))
    .digest("hex")
    .slice(0, 16);
}
