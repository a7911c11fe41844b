import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Forbidden imports, one at least for each wall of biome.jsonc: the importing file, and the import. The lint runs on a
 * tree of its own, so that a broken wall shows whatever the real files import.
 */
const FORBIDDEN: readonly (readonly [file: string, source: string])[] = [
  ["protocol/a.ts", "node:fs"],
  ["protocol/a.ts", "cloudflare:workers"],
  ["protocol/a.ts", "hono"],
  ["protocol/a.ts", "jose"],
  ["protocol/dialects/a.ts", "../../session/core/state/state.ts"],
  ["durable/a.ts", "../tenant/client/audit.ts"],
  ["durable/a.ts", "../index/keyset-page.ts"],
  ["index/a.ts", "../session/acp-session.ts"],
  ["auth/a.ts", "../http/app.ts"],
  ["auth/a.ts", "../durable/deadlines.ts"],
  ["session/a.ts", "../workspace/workspace-state.ts"],
  ["session/a.ts", "../connection/acp-connection.ts"],
  ["session/a.ts", "../tenant/tenant-state.ts"],
  ["session/a.ts", "../worker.ts"],
  ["session/log/a.ts", "../../http/app.ts"],
  ["session/core/decide/a.ts", "../../log/journal.ts"],
  ["session/core/decide/a.ts", "../../loaded-session.ts"],
  ["session/core/decide/a.ts", "../../host-intake.ts"],
  ["session/core/events/facts/a.ts", "../../../session-parts.ts"],
  ["session/core/read/redaction/a.ts", "../../../../durable/deadlines.ts"],
  ["session/core/decide/a.ts", "../../../session/effects.ts"],
  ["session/core/state/a.ts", "cloudflare:workers"],
  ["session/core/state/a.ts", "ulid"],
  ["session/core/state/a.ts", "jose"],
  ["connection/a.ts", "../session/acp-session.ts"],
  ["connection/a.ts", "../demo-agent/main.ts"],
  ["connection/transports/a.ts", "../../http/app.ts"],
  ["workspace/a.ts", "../session/loaded-session.ts"],
  ["workspace/a.ts", "../container/agent-container.ts"],
  ["workspace/hosts/a.ts", "../../tenant/storage/quotas.ts"],
  ["tenant/a.ts", "../workspace/workspace-state.ts"],
  ["tenant/client/a.ts", "../tenant-state.ts"],
  ["tenant/client/a.ts", "../storage/quotas.ts"],
  ["tenant/client/a.ts", "../../tenant/schema.ts"],
  ["container/a.ts", "../workspace/workspace-state.ts"],
  ["container/a.ts", "../http/app.ts"],
  ["http/routes/a.ts", "../../session/acp-session.ts"],
  ["http/routes/a.ts", "../../tenant/storage/quotas.ts"],
  ["host/a.ts", "../cli/cli-error.ts"],
  ["host/a.ts", "../durable/deadlines.ts"],
  ["node/a.ts", "../session/core/state/state.ts"],
  ["node/a.ts", "../host/host.ts"],
  ["demo-agent/a.ts", "../host/host.ts"],
  ["cli/a.ts", "../http/app.ts"],
];

/** Imports that look alike and are allowed. */
const ALLOWED: readonly (readonly [file: string, source: string])[] = [
  ["session/core/decide/a.ts", "../../../protocol/frame.ts"],
  ["session/core/decide/a.ts", "../state/state.ts"],
  ["session/a.ts", "../tenant/client/audit.ts"],
  ["session/log/a.ts", "../core/state/state.ts"],
  ["connection/a.ts", "../durable/deadlines.ts"],
  ["workspace/hosts/a.ts", "../container/on-demand-host.ts"],
  ["http/routes/a.ts", "../../session/transfer/worker/transcript.ts"],
  ["http/routes/a.ts", "./tenant/audit.ts"],
  ["protocol/a.ts", "zod"],
  ["auth/a.ts", "../durable/objects.ts"],
  ["tenant/client/a.ts", "../allowance.ts"],
  ["http/routes/a.ts", "../../tenant/client/audit.ts"],
  ["cli/command/a.ts", "../../host/main.ts"],
];

const tree = mkdtempSync(join(tmpdir(), "walls-"));
afterAll(() => rmSync(tree, { recursive: true }));

type Report = { diagnostics: { category: string; location: { path: string } }[] };

/** Lints the given files under the project's rules: the rules each file breaks. */
function lint(name: string, files: Readonly<Record<string, string>>): Map<string, string[]> {
  const root = join(tree, name);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const config = readFileSync(join(PROJECT, "biome.jsonc"), "utf8").replace(/"vcs": \{[^}]*\},/, "");
  writeFileSync(join(root, "biome.jsonc"), config);
  cpSync(join(PROJECT, "test/lint"), join(root, "test/lint"), { recursive: true });
  symlinkSync(join(PROJECT, "node_modules"), join(root, "node_modules"));
  const biome = join(PROJECT, "node_modules/@biomejs/biome/bin/biome");
  const args = [biome, "lint", "--reporter=json", "--max-diagnostics=none", "src"];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  expect(stdout, stderr).toContain("diagnostics");
  const broken = new Map<string, string[]>();
  for (const { category, location } of (JSON.parse(stdout) as Report).diagnostics)
    broken.set(location.path, [...(broken.get(location.path) ?? []), category]);
  return broken;
}

/** One file per import, because a file that breaks two walls would hide a hole in one of them. */
function filesFor(imports: typeof FORBIDDEN): Record<string, string> {
  return Object.fromEntries(
    imports.map(([file, source], i) => [`src/${file.replace("a.ts", `a${i}.ts`)}`, `import "${source}";\n`]),
  );
}

describe("the walls between the rooms of src/", () => {
  const broken = lint("forbidden", filesFor(FORBIDDEN));
  const open = lint("allowed", filesFor(ALLOWED));

  test.each(FORBIDDEN.map(([file, source], i) => ({ file, source, i })))(
    "$file may not import $source",
    ({ file, i }) => {
      const path = `src/${file.replace("a.ts", `a${i}.ts`)}`;
      expect(broken.get(path)).toContain("lint/style/noRestrictedImports");
    },
  );

  test.each(ALLOWED.map(([file, source], i) => ({ file, source, i })))(
    "$file may import $source",
    ({ file, i }) => {
      const path = `src/${file.replace("a.ts", `a${i}.ts`)}`;
      expect(open.get(path) ?? []).not.toContain("lint/style/noRestrictedImports");
    },
  );

  test("files may not import each other in a circle, not even types", () => {
    const cycle = lint("cycle", {
      "src/http/a.ts": `import type { B } from "./b.ts";\nexport type A = { b?: B };\n`,
      "src/http/b.ts": `import type { A } from "./a.ts";\nexport type B = { a?: A };\n`,
    });
    expect(cycle.get("src/http/a.ts")).toContain("lint/suspicious/noImportCycles");
  });

  test("types may not be imported by a call, which the walls cannot see", () => {
    const types = lint("types", {
      "src/connection/a.ts": 'export type A = import("../session/acp-session.ts").AcpSession;\n',
      "src/session/core/a.ts": 'export type A = import("../../protocol/rpc.ts").Page;\n',
    });
    expect(types.get("src/connection/a.ts")).toEqual(["plugin"]);
    expect(types.get("src/session/core/a.ts")).toEqual(["plugin"]);
  });

  test("one file alone looks objects up by name or id", () => {
    const lookup = (call: string) => `export const find = (env: Env) => env.ACP_CONNECTION_DO.${call};\n`;
    const lookups = lint("lookups", {
      "src/http/a.ts": lookup('getByName("x")'),
      "src/session/a.ts": lookup('idFromName("x")'),
      "src/tenant/a.ts": lookup('getByName("x", { locationHint: "weur" })'),
      "src/durable/objects.ts": lookup('getByName("x")'),
    });
    expect(lookups.get("src/http/a.ts")).toEqual(["plugin"]);
    expect(lookups.get("src/session/a.ts")).toEqual(["plugin"]);
    expect(lookups.get("src/tenant/a.ts")).toEqual(["plugin"]);
    expect(lookups.get("src/durable/objects.ts")).toBeUndefined();
  });

  test("the core of a session uses no global of a platform", () => {
    const globals = lint("globals", {
      "src/session/core/a.ts": "export const id = () => crypto.randomUUID();\n",
      "src/session/core/b.ts": 'export const log = () => console.log("x");\n',
      "src/session/core/c.ts": "export const { now } = Date;\n",
      "src/session/core/d.ts": "export const chance = () => Math.random();\n",
    });
    expect(globals.get("src/session/core/a.ts")).toContain("lint/style/noRestrictedGlobals");
    expect(globals.get("src/session/core/b.ts")).toContain("lint/style/noRestrictedGlobals");
    expect(globals.get("src/session/core/c.ts")).toContain("lint/style/noRestrictedGlobals");
    expect(globals.get("src/session/core/d.ts")).toContain("plugin");
  });
});
