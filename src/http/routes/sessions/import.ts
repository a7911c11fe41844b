import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { sessionObject, workspaceObject } from "../../../durable/object-names.ts";
import { mayUseWorkspace, ownWorkspace } from "../../../protocol/caller.ts";
import { isUuid } from "../../../protocol/ids.ts";
import type { ImportOrder } from "../../../protocol/rpc.ts";
import type { AcpSession } from "../../../session/acp-session.ts";
import { ImportError } from "../../../session/transfer/import-error.ts";
import { readLegacyRecord } from "../../../session/transfer/worker/legacy-record.ts";
import { readBytes, readSessionTar } from "../../../session/transfer/worker/tar-reader.ts";
import { mayOpenSession } from "../../../tenant/quotas.ts";
import type { AppEnv } from "../../app-env.ts";
import { tooMany } from "../../middleware/rate-limits.ts";
import { parse } from "../../params.ts";
import { unwrap } from "../../refusal-response.ts";
import { Metered } from "../../streams/metered-body.ts";

/** A session from an archive, or from the older record in one file: under the id it has, or under a new one. */
export async function importSession(c: Context<AppEnv>): Promise<Response> {
  const { body } = c.req.raw;
  if (!body) throw new HTTPException(400, { message: "There is no archive in the request" });
  const order = await orderOf(c);
  const spent = await mayOpenSession(c.env, c.get("caller"));
  if (spent) throw tooMany(spent.message, spent.data.retryAfterMs);
  const intake = new Intake(c.env, order);
  const metered = new Metered(c.env, c.get("caller"), body);
  try {
    if (c.req.header("Content-Type")?.toLowerCase().startsWith("application/json")) {
      const { recordId, cwd, lines } = readLegacyRecord(
        await readBytes(metered.body, null, c.get("limits").importFileBytes),
      );
      await intake.begin(recordId, null, { format: "record", cwd });
      await intake.write("record", new TextEncoder().encode(lines));
    } else {
      await readSessionTar(metered.body, intake);
    }
    const session = await intake.finish();
    return c.json(session, 201, { Location: `/api/sessions/${session.sessionId}` });
  } catch (error) {
    const { refused } = metered;
    if (refused) throw tooMany(refused.message, refused.data.retryAfterMs);
    if (!(error instanceof ImportError)) throw error;
    return c.json({ error: { code: "bad_archive", ...error.fault } }, 400);
  } finally {
    await Promise.all([intake.close(), metered.close()]);
  }
}

type Order = Omit<ImportOrder, "sessionId" | "recordId" | "format" | "cwd" | "copy"> & {
  as: "new" | undefined;
};

async function orderOf(c: Context<AppEnv>): Promise<Order> {
  const query = parse(QUERY, c.req.query());
  const caller = c.get("caller");
  const workspace = query.workspace ?? ownWorkspace(caller);
  if (workspace === undefined) throw new HTTPException(400, { message: "Say which workspace: ?workspace=" });
  if (!mayUseWorkspace(caller, workspace)) throw new HTTPException(404, { message: "Unknown workspace" });
  const object = workspaceObject(c.env, caller.tenant, workspace);
  const { agents } = await object.view(caller, workspace);
  const defaultAgent = agents.find((agent) => agent.default)?.id ?? "";
  return { as: query.as, caller, workspace, agent: query.agent ?? null, defaultAgent };
}

const QUERY = z.object({
  as: z.literal("new").optional(),
  workspace: z.string().min(1).optional(),
  agent: z.string().min(1).max(100).optional(),
});

/** The object that takes the session in, from the moment the archive has told which one that is. */
class Intake {
  readonly #env: Env;
  readonly #order: Order;
  #sessionId = "";
  #target: Target | undefined;
  #claim = { recordId: undefined as string | undefined, lastSeq: 0 };
  #recordId: string | undefined;

  constructor(env: Env, order: Order) {
    this.#env = env;
    this.#order = order;
  }

  get hasBegun(): boolean {
    return this.#target !== undefined;
  }

  async begin(
    recordId: string,
    file: string | null,
    { format, cwd }: Pick<ImportOrder, "format" | "cwd"> = { format: "acpx", cwd: null },
  ): Promise<void> {
    const { as, ...order } = this.#order;
    if (as !== "new" && !isUuid(recordId))
      throw new ImportError(`acpxRecordId ${recordId} is no UUID: import it with ?as=new`, file, 1);
    this.#recordId = recordId;
    this.#sessionId = as === "new" ? crypto.randomUUID() : recordId;
    const sessionId = this.#sessionId;
    const copy = as === "new" ? { copy: { originSeq: await this.#originSeq(recordId) } } : {};
    const object = this.#object(sessionId);
    this.#target = unwrap(await object.import({ ...order, sessionId, recordId, format, cwd, ...copy }));
  }

  /** How far the original is, if it is here: its agent may know more by now than the archive. */
  async #originSeq(recordId: string): Promise<number | null> {
    if (!isUuid(recordId)) return null;
    const origin = await this.#object(recordId).origin(this.#order.caller);
    return origin.ok ? origin.value.lastSeq : null;
  }

  #object(sessionId: string) {
    return sessionObject(this.#env, this.#order.caller.tenant, sessionId);
  }

  async write(file: string, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += CALL_BYTES) {
      // A copy of the part: a view would be sent with all that it is a view of.
      const fault = await this.#target?.write(file, bytes.slice(at, at + CALL_BYTES));
      if (fault) throw new ImportError(fault.message, fault.file, fault.line);
    }
  }

  /** What the archive's session.json says of its log. */
  claim(recordId: string | undefined, lastSeq: number): void {
    this.#claim = { recordId, lastSeq };
  }

  async finish(): Promise<{ sessionId: string; lastSeq: number }> {
    const { recordId, lastSeq } = this.#claim;
    if (!this.#target)
      throw new ImportError("there are no events in it: events/000000000001.ndjson is missing");
    if (recordId !== undefined && recordId !== this.#recordId)
      throw new ImportError(
        `it is of session ${recordId}, the events of ${this.#recordId}`,
        "session.json",
        1,
      );
    const result = await this.#target.finish(lastSeq);
    if ("message" in result) throw new ImportError(result.message, result.file, result.line);
    return { sessionId: this.#sessionId, lastSeq: result.lastSeq };
  }

  /** Nothing is left of an import that has not come to its end. */
  async close(): Promise<void> {
    try {
      await this.#target?.abort();
      this.#target?.[Symbol.dispose]();
    } catch (error) {
      // The object was reset: it clears away the rest when it starts again.
      console.warn("import could not be undone", { sessionId: this.#sessionId, error: String(error) });
    }
  }
}

type Target = Extract<Awaited<ReturnType<DurableObjectStub<AcpSession>["import"]>>, { ok: true }>["value"];

/** Well under the 32 MiB that a call between objects may carry. */
const CALL_BYTES = 8 * 1024 * 1024;
