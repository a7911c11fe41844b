import { Hono } from "hono";
import { z } from "zod";
import type { AppEnv } from "../../app-env.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { parse, sessionOf } from "../../params.ts";
import { unwrap } from "../../refusal-response.ts";
import { exportArchive, exportEvents, exportTranscript } from "./export.ts";
import { importSession } from "./import.ts";

/** Sessions leave as files and come back as sessions. */
export const transfer = new Hono<AppEnv>();

transfer.post("/sessions/import", requireScope("session:prompt"), importSession);

transfer.get("/sessions/:id/export", async (c) => {
  const { format } = parse(EXPORT_QUERY, c.req.query());
  const id = c.req.param("id");
  const session = sessionOf(c, id);
  const caller = c.get("caller");
  const projection = unwrap(await session.describe(caller));
  const { type, extension, write } = FORMATS[format];
  return c.body(write(session, caller, projection), 200, {
    "Content-Type": type,
    // The id is a UUID: safe in a header and as a file name anywhere.
    "Content-Disposition": `attachment; filename="acp-session-${id}.${extension}"`,
  });
});

const FORMATS = {
  acpx: { type: "application/x-tar", extension: "tar", write: exportArchive },
  markdown: { type: "text/markdown; charset=utf-8", extension: "md", write: exportTranscript },
  ndjson: { type: "application/x-ndjson; charset=utf-8", extension: "ndjson", write: exportEvents },
} as const;

const EXPORT_QUERY = z.object({ format: z.enum(["acpx", "markdown", "ndjson"]).default("acpx") });
