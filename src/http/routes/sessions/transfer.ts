import { Hono } from "hono";
import { EXPORT_QUERY } from "../../../protocol/rest.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseQuery } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { unwrap } from "../../refusal-response.ts";
import { type AskSession, askSession } from "../../targets.ts";
import { exportArchive, exportEvents, exportTranscript } from "./export.ts";
import { importSession } from "./import.ts";

/** Exports a session to a file, and imports it again. */
export const transferRoutes = new Hono<AppEnv>();

transferRoutes.post("/sessions/import", requireScope("session:prompt"), importSession);

transferRoutes.get("/sessions/:id/export", async (c) => {
  const { format } = parseQuery(c, EXPORT_QUERY);
  const id = c.req.param("id");
  const ask: AskSession = (call) => askSession(c, id, call);
  const caller = c.get("caller");
  const projection = unwrap(await ask((session) => session.describe(caller)));
  const { type, extension, write } = FORMATS[format];
  return c.body(write(ask, caller, projection), 200, {
    "Content-Type": type,
    // The id is a UUID: safe in a header, and as a file name on any system.
    "Content-Disposition": `attachment; filename="acp-session-${id}.${extension}"`,
  });
});

const FORMATS = {
  acpx: { type: "application/x-tar", extension: "tar", write: exportArchive },
  markdown: { type: "text/markdown; charset=utf-8", extension: "md", write: exportTranscript },
  ndjson: { type: "application/x-ndjson; charset=utf-8", extension: "ndjson", write: exportEvents },
} as const;
