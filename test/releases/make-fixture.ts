/**
 * Keeps a release as a fixture: its Worker and its host, each bundled into one file, and the facts that a gateway needs to
 * run them. `test/e2e/skew/` runs the newest fixture beside the sources. Usage: make-fixture.ts [PROJECT], by default this
 * one; docs/deploy.md says when.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { type BuildOptions, build } from "esbuild";

const OWN = fileURLToPath(new URL("../..", import.meta.url));
const project = resolve(process.argv[2] ?? OWN);
const { version } = JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as { version: string };
const fixture = join(OWN, "test/releases", version);

/** Classes keep their names, which errors carry. */
const SMALL = {
  absWorkingDir: project,
  bundle: true,
  format: "esm",
  minify: true,
  keepNames: true,
  legalComments: "none",
  write: false,
  logLevel: "warning",
} satisfies BuildOptions;

mkdirSync(fixture, { recursive: true });
await pack("worker", {
  entryPoints: ["src/worker.ts"],
  platform: "neutral",
  target: "es2024",
  mainFields: ["module", "main"],
  conditions: ["workerd", "worker", "browser"],
  external: ["cloudflare:*", "node:*"],
  loader: { ".html": "text", ".txt": "text", ".sql": "text" },
  define: { "process.env.NODE_ENV": '"production"' },
});
await pack("host", {
  entryPoints: ["src/host/main.ts"],
  platform: "node",
  target: "node20",
  // Some dependencies are CommonJS and require Node's own modules.
  banner: { js: 'import{createRequire as __cr}from"node:module";const require=__cr(import.meta.url);' },
});
const migrations = readdirSync(join(project, "migrations")).filter((name) => name.endsWith(".sql"));
writeFileSync(
  join(fixture, "release.json"),
  `${JSON.stringify({ version, migrations: migrations.sort() }, null, 2)}\n`,
);

/** A fixture must be the same on every machine, and must not tell where it was made. */
async function pack(name: string, options: BuildOptions): Promise<void> {
  const { outputFiles } = await build({ ...SMALL, ...options, write: false });
  const text = outputFiles[0]?.text ?? "";
  const path = /[\w./-]*\/node_modules\/[\w./@-]+/.exec(text)?.[0];
  if (path !== undefined || text.includes(project))
    throw new Error(`The bundle of the ${name} names ${path ?? project}`);
  writeFileSync(join(fixture, `${name}.js.gz`), gzipSync(text, { level: 9 }));
}
