import { createHash, randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { reasonOf } from "../../node/log.ts";
import {
  findProcess,
  type LinuxProcess,
  listProcesses,
  processScope,
  variableOf,
} from "./linux-processes.ts";
import { endGroup, endProcesses, type ProcessGroupListener } from "./process-group.ts";

/** Identifies a host: the next host with the same identity ends the processes that this host leaves behind. */
export type HostIdentity = { workspace: string; name: string; root: string };

const RECORD = z.object({
  boot: z.string(),
  namespace: z.string(),
  mark: z.string(),
  host: z.object({ pid: z.int(), startedAt: z.string() }),
  groups: z.array(z.object({ leader: z.int().min(2), startedAt: z.string() })),
});
type GroupRecord = z.infer<typeof RECORD>;

/** An environment variable that marks all processes of a host's agents. */
const MARK = "ACP_EDGE_HOST_MARK";

/**
 * A file that lists the process groups of one host. A host that is killed cannot end its agents, and not all of them
 * end by themselves. The next host ends them before it starts any agent.
 */
export class ProcessGroupRecords implements ProcessGroupListener {
  /** Variables for the environment of every process that is started. */
  readonly variables: Readonly<Record<string, string>>;
  readonly #file: string;
  readonly #log: (event: string) => void;
  readonly #record: GroupRecord;

  /**
   * Ends the process groups that earlier hosts left behind, and opens a new record. Undefined where the operating
   * system does not identify processes, or where the directory is not writable.
   */
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
      const record = { ...scope, mark: randomUUID(), host, groups: [] };
      const records = new ProcessGroupRecords(directory, record, log);
      // A host that is killed while it starts its first agent has not listed the agent. The mark is in the file by then.
      records.#write();
      return records;
    } catch (error) {
      log(`process groups cannot be recorded, so a crash would leave agents running: ${reasonOf(error)}`);
      return undefined;
    }
  }

  private constructor(directory: string, record: GroupRecord, log: (event: string) => void) {
    this.#file = join(directory, `${record.mark}.json`);
    this.#record = record;
    this.#log = log;
    this.variables = { [MARK]: record.mark };
  }

  groupStarted(leader: number): void {
    const startedAt = findProcess(leader)?.startedAt;
    if (startedAt === undefined) return;
    this.#record.groups.push({ leader, startedAt });
    this.#write();
  }

  groupEnded(leader: number): void {
    this.#record.groups = this.#record.groups.filter((group) => group.leader !== leader);
    this.#write();
  }

  /** Removes the record, because all groups have ended. */
  close(): void {
    rmSync(this.#file, { force: true });
    try {
      rmdirSync(dirname(this.#file));
    } catch {
      // The directory contains the record of another host.
    }
  }

  #write(): void {
    try {
      mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
      writeFileSync(`${this.#file}.new`, JSON.stringify(this.#record));
      renameSync(`${this.#file}.new`, this.#file);
    } catch (error) {
      this.#log(`the record of process groups cannot be written: ${reasonOf(error)}`);
    }
  }
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
    // In another container the same numbers mean other processes.
    if (record?.boot === scope.boot && record.namespace !== scope.namespace) continue;
    if (record?.boot === scope.boot && isAlive(record.host)) continue;
    const groups = record?.boot === scope.boot ? orphansOf(record, listProcesses()) : [];
    if (groups.length > 0)
      log(`ending process groups that an earlier host left behind: ${groups.join(", ")}`);
    await Promise.all(groups.map((leader) => endGroup({ leader }, killAfterMs)));
    if (record?.boot === scope.boot) await endMarked(record.mark, killAfterMs, log);
    rmSync(file, { force: true });
  }
}

/** Ends the processes that have left their groups. */
async function endMarked(mark: string, killAfterMs: number, log: (event: string) => void): Promise<void> {
  const find = () => listProcesses().flatMap(({ pid }) => (variableOf(pid, MARK) === mark ? [pid] : []));
  const pids = find();
  if (pids.length === 0) return;
  log(`ending processes that an earlier host left behind: ${pids.join(", ")}`);
  await endProcesses(find, killAfterMs);
}

/**
 * The groups of a record that still exist. A leader is identified by its start time. While a group has members, its
 * number is not reused, even after its leader has exited; but the whole group may have ended and the number may belong
 * to a new group, whose members do not carry the mark.
 */
function orphansOf({ groups, mark }: GroupRecord, procs: readonly LinuxProcess[]): number[] {
  return groups
    .filter(({ leader, startedAt }) => {
      const found = procs.find(({ pid }) => pid === leader);
      if (found) return found.group === leader && found.startedAt === startedAt;
      return procs.some(({ pid, group }) => group === leader && variableOf(pid, MARK) === mark);
    })
    .map(({ leader }) => leader);
}

function isAlive({ pid, startedAt }: { pid: number; startedAt: string }): boolean {
  return findProcess(pid)?.startedAt === startedAt;
}

function readRecord(file: string): GroupRecord | undefined {
  try {
    return RECORD.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    // The file is not a record, for example because its host was killed while it wrote.
    return undefined;
  }
}

function digest({ workspace, name, root }: HostIdentity): string {
  return createHash("sha256")
    .update(JSON.stringify([workspace, name, root]))
    .digest("hex")
    .slice(0, 16);
}
