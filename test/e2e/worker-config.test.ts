import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readWorkerConfig } from "../../src/cli/local/worker-config.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "acp-edge-config-"));
  mkdirSync(join(directory, "migrations"));
});
afterAll(() => rmSync(directory, { recursive: true }));

const write = (name: string, text: string) => writeFileSync(join(directory, name), text);
const read = () => readWorkerConfig(join(directory, "wrangler.toml"), AbortSignal.timeout(120_000));

test("wrangler's reading of the configuration is cached until the configuration changes", async () => {
  write("worker.js", "export default {}");
  const settings = (value: string) => `
    name = "some"
    main = "worker.js"
    compatibility_date = "2026-08-15"
    [vars]
    SOME = "${value}"
    [[d1_databases]]
    binding = "INDEX"
    database_name = "index"
    database_id = "00000000-0000-0000-0000-000000000000"
    migrations_dir = "migrations"`;
  write("wrangler.toml", settings("one"));
  write("migrations/0001.sql", "CREATE TABLE a (b)");
  const first = await read();
  expect(first).toMatchObject({
    name: "some",
    worker: { bindings: { SOME: "one" } },
    migrations: [{ binding: "INDEX", name: "0001.sql", statements: ["CREATE TABLE a (b)"] }],
  });
  // Asking wrangler again would fail, because the process would be killed.
  expect(await readWorkerConfig(join(directory, "wrangler.toml"), AbortSignal.abort())).toEqual(first);

  write("wrangler.toml", settings("two"));
  expect(await read()).toMatchObject({ worker: { bindings: { SOME: "two" } } });
  write("migrations/0002.sql", "DROP TABLE a");
  expect((await read()).migrations).toHaveLength(2);
  write(".dev.vars", "SOME=three");
  expect(await read()).toMatchObject({ worker: { bindings: { SOME: "three" } } });
});
