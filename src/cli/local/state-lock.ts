import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const SQLITE_BUSY = 5;

/**
 * Allows one runner per state directory. The operating system holds the lock, which is taken through SQLite, so it is
 * released however the process ends: no lock becomes stale, and no reused pid is mistaken for its holder. The pid
 * file only serves the error message.
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
