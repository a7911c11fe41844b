import { z } from "zod";
import { PAGE_QUERY } from "./rest.ts";

/** The query of `GET /api/usage`. `limit` is the number of rows that a page sums: one per session and day. */
export const USAGE_QUERY = PAGE_QUERY.extend({
  limit: z.coerce.number().int().min(1).max(1000).default(1000),
  /** The first day that is wanted. */
  since: z.iso.date().optional(),
});

/** The use of one user on one day (UTC), in one workspace and with one agent. */
export type UsageSum = {
  day: string;
  workspace: string;
  /** The owner of the sessions. */
  user: string;
  agent: string;
  sessions: number;
  /** By currency. */
  costs: Record<string, number>;
  tokens: { total: number; input: number; output: number };
};

/** The answer of `GET /api/usage`. */
export type UsageList = { usage: UsageSum[]; nextCursor: string | null };
