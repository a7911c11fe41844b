import { readFileSync } from "node:fs";

/** The manifest has the same relative path from this file and from the bundle of the published package. */
const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

export const VERSION = manifest.version;
