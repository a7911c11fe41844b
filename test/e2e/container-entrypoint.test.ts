/** The entry point of the image as its users run it: root for the host, another user for the agents. */
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { findUser } from "../../src/host/isolation/agent-user.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory.ts";

const ENTRYPOINT = fileURLToPath(new URL("../../src/container/entrypoint.sh", import.meta.url));
/** Stands in for the host: prints how it was started. */
const PROGRAM = `
const fs = require("node:fs");
const environ = fs.readFileSync("/proc/self/environ", "utf8") + fs.readFileSync("/proc/self/cmdline", "utf8");
console.log(JSON.stringify({ environ, token: fs.readFileSync(Number(process.env.ACP_EDGE_HOST_TOKEN_FD), "utf8") }));`;

async function enter(env: NodeJS.ProcessEnv): Promise<{ environ: string; token: string }> {
  const { stdout } = await promisify(execFile)(ENTRYPOINT, [process.execPath, "-e", PROGRAM], {
    env: { PATH: process.env.PATH, ACP_EDGE_ROOT: temporaryDirectory(), ...env },
  });
  return JSON.parse(stdout) as { environ: string; token: string };
}

function repository(): string {
  const directory = temporaryDirectory();
  chmodSync(directory, 0o755);
  const git = (...args: string[]) => execFileSync("git", ["-C", directory, ...args]);
  git("init", "-q");
  writeFileSync(join(directory, "file"), "content");
  git("add", ".");
  git("-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "-qm", "first");
  // Other users may clone it.
  execFileSync("chown", ["-R", "nobody", directory]);
  return directory;
}

describe("the entry point of the image", () => {
  test.each(["token", "a.long".repeat(1500)])(
    "hands the host's token over by a descriptor",
    async (token) => {
      const { environ, token: handed } = await enter({ ACP_EDGE_HOST_TOKEN: token });
      expect(handed).toBe(`${token}\n`);
      expect(environ).not.toContain(`=${token}`);
    },
  );

  test.runIf(process.getuid?.() === 0)("makes and clones the workspace as the user of agents", async () => {
    const root = temporaryDirectory();
    const user = findUser("nobody");
    await enter({
      ACP_EDGE_HOST_TOKEN: "t",
      ACP_EDGE_ROOT: root,
      ACP_EDGE_AGENT_USER: "nobody",
      GIT_URL: `file://${repository()}`,
    });
    const owners = ["", ...readdirSync(root)].map((name) => statSync(join(root, name)).uid);
    expect(owners).toEqual([user?.uid, user?.uid, user?.uid]);
  });
});
