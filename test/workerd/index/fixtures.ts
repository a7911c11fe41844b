import { env } from "cloudflare:workers";

/** Makes every statement on the sessions of the index fail until the returned function is called. */
export async function breakIndex(): Promise<() => Promise<void>> {
  await env.INDEX.prepare("ALTER TABLE sessions RENAME TO sessions_out_of_reach").run();
  return async () => {
    await env.INDEX.prepare("ALTER TABLE sessions_out_of_reach RENAME TO sessions").run();
  };
}

/** The ids of sessions that the index has of a workspace, and those with waiting permissions. */
export async function indexed(workspace: string): Promise<{ sessions: string[]; permissions: string[] }> {
  const ids = async (table: "sessions" | "permissions", column: string) => {
    const query = `SELECT DISTINCT ${column} AS id FROM ${table} WHERE tenant = 'acme' AND workspace = ? ORDER BY 1`;
    const { results } = await env.INDEX.prepare(query).bind(workspace).all<{ id: string }>();
    return results.map(({ id }) => id);
  };
  return { sessions: await ids("sessions", "id"), permissions: await ids("permissions", "session") };
}

/** Waits until `look` finds something. */
export async function eventually<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  for (let tries = 0; tries < 1000; tries += 1) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await scheduler.wait(10);
  }
  throw new Error("It did not happen in time");
}
