/** The two builds that a deploy brings together: the last release, as `test/releases/` keeps it, and the sources. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { bundleWorker } from "../../../src/cli/local/worker-bundle.ts";

const PROJECT = fileURLToPath(new URL("../../../", import.meta.url));
const RELEASES = join(PROJECT, "test/releases");

/** The build that an object, the Worker or a host runs. */
export type Build = "old" | "new";

type Release = { version: string; migrations: string[] };

/** The last release. */
export const RELEASE = lastRelease();

export function workerCode(build: Build): string | Promise<string> {
  return build === "old" ? unpack("worker") : bundleWorker(PROJECT, "src/worker.ts");
}

/** The program of a host. A released host is put into `directory`, where it finds its version and its catalogue. */
export function hostProgram(build: Build, directory: string): string {
  if (build === "new") return join(PROJECT, "src/host/main.ts");
  const program = join(directory, "dist/host/main.js");
  mkdirSync(join(directory, "dist/host"), { recursive: true });
  writeFileSync(
    join(directory, "package.json"),
    JSON.stringify({ version: RELEASE.version, type: "module" }),
  );
  writeFileSync(
    join(directory, "dist/host/catalogue.json"),
    JSON.stringify({ version: "1.0.0", agents: [] }),
  );
  writeFileSync(program, unpack("host"));
  return program;
}

function unpack(name: string): string {
  return gunzipSync(readFileSync(join(RELEASES, RELEASE.version, `${name}.js.gz`))).toString();
}

function lastRelease(): Release {
  const versions = readdirSync(RELEASES, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const last = versions
    .map(({ name }) => name)
    .sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
    .at(-1);
  if (last === undefined) throw new Error(`No release in ${RELEASES}`);
  return JSON.parse(readFileSync(join(RELEASES, last, "release.json"), "utf8")) as Release;
}
