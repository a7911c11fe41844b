import { RequestError, type SessionInfo } from "@agentclientprotocol/sdk";
import { DemoSession } from "./demo-session.ts";
import type { Output } from "./output.ts";
import type { SessionRecord, SessionStore } from "./session-store.ts";

type NamedServer = { name: string };

/** The open sessions of the process, and those on disk if there is a store. */
export class DemoSessions {
  readonly #out: Output;
  readonly #store: SessionStore | undefined;
  readonly #open = new Map<string, DemoSession>();

  constructor(out: Output, store: SessionStore | undefined) {
    this.#out = out;
    this.#store = store;
  }

  open(record: SessionRecord, mcpServers: NamedServer[]): DemoSession {
    const session = this.#open.get(record.sessionId) ?? new DemoSession(record, this.#out, this.#store);
    session.change({ cwd: record.cwd });
    session.mcpServers = mcpServers.map(({ name }) => name);
    this.#open.set(session.id, session);
    return session;
  }

  /** Opens a session again that is open already or on disk. */
  reopen(params: { sessionId: string; cwd: string; mcpServers?: NamedServer[] }): DemoSession {
    const record = this.#open.get(params.sessionId)?.record ?? this.#store?.find(params.sessionId);
    if (!record) throw RequestError.sessionNotFound(params.sessionId);
    return this.open({ ...record, cwd: params.cwd }, params.mcpServers ?? []);
  }

  find(sessionId: string): DemoSession {
    const session = this.#open.get(sessionId);
    if (!session) throw RequestError.sessionNotFound(sessionId);
    return session;
  }

  list(cwd: string | null | undefined): SessionInfo[] {
    const open = [...this.#open.values()].map(({ record }) => record);
    const byId = new Map(
      [...(this.#store?.list() ?? []), ...open].map((record) => [record.sessionId, record]),
    );
    return [...byId.values()]
      .filter((record) => !cwd || record.cwd === cwd)
      .map(({ sessionId, cwd: directory, title, updatedAt }) => ({
        sessionId,
        cwd: directory,
        title,
        updatedAt,
      }));
  }

  cancel(sessionId: string): void {
    this.#open.get(sessionId)?.turn?.abort();
  }

  close(sessionId: string): void {
    this.cancel(sessionId);
    this.#open.delete(sessionId);
  }

  remove(sessionId: string): void {
    this.close(sessionId);
    this.#store?.remove(sessionId);
  }
}
