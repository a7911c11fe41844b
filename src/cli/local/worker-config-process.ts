/** Prints the WorkerConfig of a wrangler.toml as one line of JSON. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  unstable_getMiniflareWorkerOptions as getWorkerOptions,
  unstable_readConfig as readConfig,
  unstable_splitSqlQuery as splitSql,
} from "wrangler";
import type { Migration, WorkerConfig } from "./worker-config.ts";

type D1Config = { binding: string; migrations_dir?: string };

function interpret(configPath: string): WorkerConfig {
  const config = readConfig({ config: configPath });
  // The bundle is a single module, so rules have nothing to classify, and Miniflare 5 rejects them.
  const { modulesRules: _, ...worker } = getWorkerOptions(config).workerOptions;
  const databases = config.d1_databases as D1Config[];
  const migrations = databases.flatMap(({ binding, migrations_dir }) =>
    readMigrations(binding, join(dirname(configPath), migrations_dir ?? "migrations")),
  );
  return { name: config.name ?? "worker", worker, migrations };
}

function readMigrations(binding: string, directory: string): Migration[] {
  const names = readdirSync(directory).filter((name) => name.endsWith(".sql"));
  return names.sort().map((name) => {
    const statements = splitSql(readFileSync(join(directory, name), "utf8"));
    return { binding, name, statements };
  });
}

process.stdout.write(`\n${JSON.stringify(interpret(process.argv[2] ?? "wrangler.toml"))}`);
