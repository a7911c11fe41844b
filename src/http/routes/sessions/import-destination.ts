import { callObject } from "../../../durable/object-call.ts";
import { type SessionObject, sessionObject } from "../../../durable/objects.ts";
import { isUuid } from "../../../protocol/ids.ts";
import type { ImportedSession } from "../../../protocol/rest.ts";
import type { ImportOrder } from "../../../protocol/rpc.ts";
import { RPC_VERSION } from "../../../protocol/versions.ts";
import { ImportError } from "../../../session/transfer/import-error.ts";
import type { ImportSink, SessionClaim } from "../../../session/transfer/worker/tar-reader.ts";
import { unwrap } from "../../refusal-response.ts";

/** The part of an import that the request decides; the archive decides the rest. */
export type ImportOptions = Pick<ImportOrder, "caller" | "workspace" | "agent" | "defaultAgent"> & {
  as: "new" | undefined;
};

/** The session object that receives an import. The archive's first event decides which object that is. */
export class ImportDestination implements ImportSink {
  readonly #env: Env;
  readonly #options: ImportOptions;
  #sessionId = "";
  #recordId: string | undefined;
  #target: RemoteImport | undefined;
  #claim: SessionClaim | { fault: string } | undefined;
  #format: ImportOrder["format"] = "acpx";

  constructor(env: Env, options: ImportOptions) {
    this.#env = env;
    this.#options = options;
  }

  get hasBegun(): boolean {
    return this.#target !== undefined;
  }

  async begin(
    recordId: string,
    file: string | null,
    { format, cwd }: Pick<ImportOrder, "format" | "cwd"> = { format: "acpx", cwd: null },
  ): Promise<void> {
    const { as, ...options } = this.#options;
    if (as !== "new" && !isUuid(recordId))
      throw new ImportError(`acpxRecordId ${recordId} is no UUID: import it with ?as=new`, file, 1);
    const sessionId = as === "new" ? crypto.randomUUID() : recordId;
    this.#recordId = recordId;
    this.#format = format;
    this.#sessionId = sessionId;
    const copy = as === "new" ? { copy: await this.#origin(recordId) } : {};
    const order = { v: RPC_VERSION, ...options, sessionId, recordId, format, cwd, ...copy };
    this.#target = unwrap(await this.#object(sessionId).import(order));
  }

  /** The original, if it is here and the caller may read it: its agent may have done more since the export. */
  async #origin(recordId: string): Promise<NonNullable<ImportOrder["copy"]>> {
    const origin = isUuid(recordId) ? await this.#originOf(recordId) : undefined;
    return origin?.ok
      ? { originSeq: origin.value.lastSeq, agentSession: origin.value.agentSession }
      : { originSeq: null, agentSession: null };
  }

  #originOf(recordId: string) {
    return callObject(
      () => this.#object(recordId),
      (session) => session.origin(this.#options.caller),
    );
  }

  #object(sessionId: string): SessionObject {
    const { caller, workspace } = this.#options;
    return sessionObject(this.#env, caller.tenant, sessionId, workspace);
  }

  async write(file: string, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += CALL_BYTES) {
      // RPC would send the whole buffer behind a view, so each call gets a copy of its part.
      const fault = await this.#target?.write(file, bytes.slice(at, at + CALL_BYTES));
      if (fault) throw new ImportError(fault.message, fault.file, fault.line);
    }
  }

  claim(claim: SessionClaim | { fault: string }): void {
    this.#claim = claim;
  }

  async finish(): Promise<ImportedSession> {
    const claim = this.#claim;
    const { recordId, lastSeq } = claim && !("fault" in claim) ? claim : { recordId: undefined, lastSeq: 0 };
    if (!this.#target)
      throw new ImportError("the archive has no events: events/000000000001.ndjson is missing");
    if (recordId !== undefined && recordId !== this.#recordId) {
      const message = `session.json is of session ${recordId}, the events are of ${this.#recordId}`;
      throw new ImportError(message, "session.json", 1);
    }
    const result = await this.#target.finish(lastSeq);
    if ("message" in result) throw new ImportError(result.message, result.file, result.line);
    const warning = this.#format === "acpx" ? warningOf(claim, result.imported ?? lastSeq) : undefined;
    return {
      sessionId: this.#sessionId,
      lastSeq: result.lastSeq,
      ...(warning !== undefined && { warnings: [warning] }),
    };
  }

  /** Undoes an import that is not finished. */
  async close(): Promise<void> {
    try {
      await this.#target?.abort();
      this.#target?.[Symbol.dispose]();
    } catch (error) {
      // The object was reset: it removes the unfinished import when it starts again.
      console.warn("import could not be undone", { sessionId: this.#sessionId, error: String(error) });
    }
  }
}

/** What is wrong with `session.json`, which the import does without. */
function warningOf(claim: SessionClaim | { fault: string } | undefined, last: number): string | undefined {
  if (!claim) return "session.json is missing; the session was made from its events alone";
  if ("fault" in claim) return `session.json is ${claim.fault}; the session was made from its events alone`;
  if (claim.lastSeq >= last) return undefined;
  return `session.json ends with event ${claim.lastSeq}, the events with ${last}; the events count`;
}

/** The object's half of the import, as the RPC stub presents it. */
type RemoteImport = Extract<Awaited<ReturnType<SessionObject["import"]>>, { ok: true }>["value"];

/** Well below the 32 MiB that one RPC call may carry. */
const CALL_BYTES = 8 * 1024 * 1024;
