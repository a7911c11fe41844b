import {
  appendFileSync,
  createReadStream,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Output } from "./output.ts";

/** The data of a session besides its history. */
export type SessionRecord = {
  sessionId: string;
  cwd: string;
  title: string | null;
  updatedAt: string;
  modeId: string;
  config: Record<string, string | boolean>;
  prompts: number;
};

/**
 * Sessions on disk: `<id>.json` is the record, `<id>.ndjson` is the history, exactly the lines that were sent.
 *
 * Writing is synchronous, so that a crash during a turn loses nothing that a client has seen.
 */
export class SessionStore {
  readonly #directory: string;

  constructor(directory: string) {
    mkdirSync(directory, { recursive: true });
    this.#directory = directory;
  }

  save(record: SessionRecord): void {
    const file = this.#path(record.sessionId, "json");
    writeFileSync(`${file}.tmp`, JSON.stringify(record));
    renameSync(`${file}.tmp`, file);
  }

  find(sessionId: string): SessionRecord | undefined {
    // Ids are file names, so a foreign id must not become a path.
    if (!/^[\w-]+$/.test(sessionId)) return undefined;
    try {
      return JSON.parse(readFileSync(this.#path(sessionId, "json"), "utf8")) as SessionRecord;
    } catch {
      return undefined;
    }
  }

  list(): SessionRecord[] {
    return readdirSync(this.#directory)
      .filter((name) => name.endsWith(".json"))
      .map((name) => this.find(name.slice(0, -".json".length)))
      .filter((record) => record !== undefined);
  }

  remove(sessionId: string): void {
    if (!this.find(sessionId)) return;
    rmSync(this.#path(sessionId, "json"), { force: true });
    rmSync(this.#path(sessionId, "ndjson"), { force: true });
  }

  append(sessionId: string, lines: string): void {
    appendFileSync(this.#path(sessionId, "ndjson"), lines);
  }

  /** Sends the whole history again in chunks of whole lines. An incomplete last line is left out. */
  async replay(sessionId: string, out: Output): Promise<void> {
    let rest: Buffer = Buffer.alloc(0);
    try {
      for await (const chunk of createReadStream(this.#path(sessionId, "ndjson"))) {
        const bytes = Buffer.concat([rest, chunk as Buffer]);
        const end = bytes.lastIndexOf("\n") + 1;
        rest = bytes.subarray(end);
        if (end === 0) continue;
        out.write(bytes.subarray(0, end));
        await out.ready();
      }
    } catch (error) {
      // A session without history has no file.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }

  #path(sessionId: string, extension: string): string {
    return join(this.#directory, `${sessionId}.${extension}`);
  }
}
