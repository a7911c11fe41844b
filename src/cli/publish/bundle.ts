/**
 * Builds the published form of the command: a few JavaScript files that contain all their dependencies. They keep the
 * relative paths of their sources, by which the host finds the demo agent. Usage: bundle.ts [DIRECTORY]
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Metafile } from "esbuild";

const PROJECT = fileURLToPath(new URL("../../..", import.meta.url));
const OUT = resolve(process.argv[2] ?? "dist");

for (const directory of ["cli", "demo-agent"]) rmSync(join(OUT, directory), { recursive: true, force: true });

const { metafile } = await build({
  absWorkingDir: PROJECT,
  entryPoints: { "cli/acp-edge": "src/cli/command/main.ts", "demo-agent/main": "src/demo-agent/main.ts" },
  outdir: OUT,
  chunkNames: "cli/[name]-[hash]",
  inject: ["src/cli/publish/older-node.ts"],
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20",
  minifySyntax: true,
  minifyWhitespace: true,
  // Some dependencies are CommonJS and require Node's own modules.
  banner: { js: 'import{createRequire as __cr}from"node:module";const require=__cr(import.meta.url);' },
  metafile: true,
  logLevel: "warning",
});
const catalogue = readFileSync(join(PROJECT, "src/host/catalogue.json"), "utf8");
writeFileSync(join(OUT, "cli/catalogue.json"), catalogue.replace("demo-agent/main.ts", "demo-agent/main.js"));
writeFileSync(join(OUT, "cli/LICENSES.txt"), licences(metafile));

/** The licences of all bundled packages. */
function licences({ inputs }: Metafile): string {
  const packages = new Set(
    Object.keys(inputs).flatMap((path) => /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []),
  );
  return [...packages].sort().map(licence).join("\n\n");
}

function licence(name: string): string {
  const directory = join(PROJECT, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8")) as {
    version: string;
    license: string;
  };
  const file = readdirSync(directory).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file === undefined ? "" : `\n\n${readFileSync(join(directory, file), "utf8").trim()}`;
  return `---- ${name} ${version} (${license})${text}`;
}
