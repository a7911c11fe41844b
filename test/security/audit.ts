/**
 * Asks the registry whether a production dependency has a known vulnerability of at least moderate severity. A registry
 * that has no such service is said, and fails the check only with AUDIT=required: an answer that nobody gave is not good
 * news, but a mirror without advisories must not keep a change from landing.
 */
import { spawnSync } from "node:child_process";
import { z } from "zod";

const REPORT = z.object({
  vulnerabilities: z.record(
    z.string(),
    z.object({ severity: z.string(), via: z.array(z.union([z.string(), z.object({ title: z.string() })])) }),
  ),
});

const SERIOUS = new Set(["moderate", "high", "critical"]);

const { stdout } = spawnSync("npm", ["audit", "--omit=dev", "--json"], { encoding: "utf8" });
const report = REPORT.safeParse(parse(stdout));

if (!report.success) {
  console.error("audit: the registry answers no questions about vulnerabilities; nothing was checked");
  process.exitCode = process.env.AUDIT === "required" ? 1 : 0;
} else {
  const found = Object.entries(report.data.vulnerabilities).filter(([, { severity }]) =>
    SERIOUS.has(severity),
  );
  for (const [name, { severity, via }] of found)
    console.error(
      `audit: ${name}, ${severity}: ${via.map((one) => (typeof one === "string" ? one : one.title)).join("; ")}`,
    );
  if (found.length > 0) process.exitCode = 1;
  else console.log("audit: no known vulnerability in production dependencies");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
