import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const SQLITE_BUSY = 5;

/**
 * One runner per state directory. The lock is the operating system's, taken through SQLite, so it ends
 * with the process however that ends: there is no stale lock to recognise and no reused pid to mistake.
 * The pid beside it is for the message only.
 */
export function lockState(stateDir: string): { release(): void } {
  const pidFile = join(stateDir, "runner.pid");
  const database = new DatabaseSync(join(stateDir, "runner.lock"));
  try {
    database.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error;
    throw new Error(
      `${stateDir} is in use by another acp-edge${holder(pidFile)}. Stop it or use --state DIR.`,
    );
  }
  writeFileSync(pidFile, `${process.pid}\n`);
  return { release: () => database.close() };
}

function holder(pidFile: string): string {
  try {
    return ` (pid ${readFileSync(pidFile, "utf8").trim()})`;
  } catch {
    return "";
  }
}
