import { z } from "zod";

/** The title as it is kept: one line, without space around it. */
const TITLE = z
  .string()
  .transform((text) =>
    text
      .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
      .trim()
      .slice(0, TITLE_CHARS)
      .replace(/[\uD800-\uDBFF]$/, ""),
  )
  .refine((text) => text !== "", "The title must not be empty");

/** Titles of agents have as many characters at most. */
const TITLE_CHARS = 200;

/** A change of what people see of a session in lists. */
export const SESSION_CHANGE = z
  .strictObject({ title: TITLE, archived: z.boolean() })
  .partial()
  .refine(({ title, archived }) => title !== undefined || archived !== undefined, "Name title or archived");
export type SessionChange = z.infer<typeof SESSION_CHANGE>;

/** The session after a change. */
export type ChangedSession = { readonly title: string | null; readonly archived: boolean };

/** Which sessions a list has, by ACP's words. */
export const ARCHIVE_FILTER = z.enum(["exclude", "include", "only"]);
export type ArchiveFilter = z.infer<typeof ARCHIVE_FILTER>;
