import type { Miniflare } from "miniflare";
import type { Migration } from "./worker-config.ts";

/** The table that `wrangler d1 migrations apply` uses too, so that either can continue where the other stopped. */
const CREATE_TABLE = `CREATE TABLE IF NOT EXISTS d1_migrations(
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

/** Applies new migrations, each in one transaction with its entry in the table. */
export async function applyMigrations(miniflare: Miniflare, migrations: Migration[]): Promise<void> {
  for (const { binding, name, statements } of migrations) {
    const database = await miniflare.getD1Database(binding);
    await database.prepare(CREATE_TABLE).run();
    if (await database.prepare("SELECT 1 FROM d1_migrations WHERE name = ?").bind(name).first()) continue;
    await database.batch([
      ...statements.map((sql) => database.prepare(sql)),
      database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name),
    ]);
    console.error(`${binding}: applied ${name}`);
  }
}
