import type { Context } from "hono";
import { callObject } from "../../../durable/object-call.ts";
import { workspaceObject } from "../../../durable/objects.ts";
import { mayUseWorkspace } from "../../../protocol/caller.ts";
import { type ErrorBody, IMPORT_QUERY, type ImportedSession } from "../../../protocol/rest.ts";
import { ImportError } from "../../../session/transfer/import-error.ts";
import { readLegacyRecord } from "../../../session/transfer/worker/legacy-record.ts";
import { readBytes, readSessionTar } from "../../../session/transfer/worker/tar-reader.ts";
import { countSession } from "../../../tenant/client/subject-limits.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseQuery } from "../../input.ts";
import { RefusalException, unwrap } from "../../refusal-response.ts";
import { MeteredBody } from "../../streams/metered-body.ts";
import { requestedWorkspace, unknownWorkspace } from "../../targets.ts";
import { ImportDestination, type ImportOptions } from "./import-destination.ts";

/** Imports a session from a tar or from an older JSON record, under its own id or under a new one. */
export async function importSession(c: Context<AppEnv>): Promise<Response> {
  const { body } = c.req.raw;
  if (!body) throw new RefusalException({ reason: "invalid", message: "The request contains no archive" });
  const options = await importOptions(c);
  unwrap(await countSession(c.env, c.get("limits"), c.get("caller")));
  const destination = new ImportDestination(c.env, options);
  const metered = new MeteredBody(c.env, c.get("limits"), c.get("caller"), body);
  try {
    if (c.req.header("Content-Type")?.toLowerCase().startsWith("application/json")) {
      const bytes = await readBytes(metered.body, null, c.get("limits").importFileBytes);
      const { recordId, cwd, lines } = readLegacyRecord(bytes);
      await destination.begin(recordId, null, { format: "record", cwd });
      await destination.write("record", new TextEncoder().encode(lines));
    } else {
      await readSessionTar(metered.body, c.get("limits"), destination);
    }
    const session = await destination.finish();
    return c.json<ImportedSession>(session, 201, { Location: `/api/sessions/${session.sessionId}` });
  } catch (error) {
    const { exceeded } = metered;
    if (exceeded) throw new RefusalException(exceeded);
    if (!(error instanceof ImportError)) throw error;
    return c.json<ErrorBody>({ error: { code: "bad_archive", ...error.fault } }, 400);
  } finally {
    await Promise.all([destination.close(), metered.close()]);
  }
}

async function importOptions(c: Context<AppEnv>): Promise<ImportOptions> {
  const { as, agent = null } = parseQuery(c, IMPORT_QUERY);
  const caller = c.get("caller");
  const workspace = requestedWorkspace(c);
  if (!mayUseWorkspace(caller, workspace)) throw unknownWorkspace();
  const { agents } = await callObject(
    () => workspaceObject(c.env, caller.tenant, workspace),
    (object) => object.view(caller, workspace),
  );
  const defaultAgent = agents.find((one) => one.default)?.id ?? "";
  return { as, caller, workspace, agent, defaultAgent };
}
