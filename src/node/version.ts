import { readFileSync } from "node:fs";

/** From the manifest, which is as far from here as from the bundle of the published package. */
const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

export const VERSION = manifest.version;
