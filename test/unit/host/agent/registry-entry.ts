import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDirectory } from "../../../fixtures/temporary-directory.ts";

/** An entry in the form of the public registry. */
export const REGISTERED = {
  id: "some-agent",
  name: "Some Agent",
  version: "1.2.3",
  description: "An agent",
  repository: "https://example.com/some-agent",
  website: "https://example.com",
  authors: ["Somebody"],
  license: "MIT",
  license_url: "https://example.com/license",
  icon: "./icon.svg",
  distribution: {
    npx: { package: "@scope/some-agent@1.2.3", args: ["--acp"], env: { MODE: "acp" } },
    binary: {
      "linux-x86_64": {
        archive: "https://example.com/a.tar.gz",
        sha256: "0".repeat(64),
        cmd: "./some-binary",
      },
      "linux-aarch64": { archive: "https://example.com/b.tar.gz", cmd: "./some-binary" },
    },
  },
  preview: { version: "2.0.0", distribution: { npx: { package: "@scope/some-agent@2.0.0" } } },
};

export function catalogueFile(content: unknown): string {
  const file = join(temporaryDirectory(), "catalogue.json");
  writeFileSync(file, JSON.stringify(content));
  return file;
}
