import { IndexUnavailable } from "./index-unavailable.ts";
import type { Run } from "./keyset-page.ts";

/**
 * Runs queries on D1. The statements are ours and tests run every one of them, so a failure is the database's: D1 marks
 * its errors by nothing but their texts.
 */
export function runner(index: D1Database): Run {
  return async <Row>({ sql, values }: Parameters<Run>[0]) => {
    const statement = index.prepare(sql).bind(...values);
    try {
      const { results } = await statement.all<Row>();
      return results;
    } catch (error) {
      console.error("index not read", { error: String(error) });
      throw new IndexUnavailable(error);
    }
  };
}
