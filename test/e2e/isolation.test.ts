/** The whole stack: no process has the host's token, and agents find neither tokens nor keys. */
import { dirname } from "node:path";
import { describe, expect, test } from "vitest";
import { keyPath } from "../../src/cli/token-signer.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory.ts";
import { Client } from "./client.ts";
import { type Gateway, runStart, startGateway } from "./gateway.ts";
import { processesWith } from "./host/isolations.ts";
import { textOf } from "./updates.ts";

type View = { hosts: { isolation?: string }[] };

/** Everything that the agent's terminal can read about processes and the state of the stack. */
function look({ state }: Gateway): string {
  const read = `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline $(find '${state}' '${dirname(keyPath(state))}' -type f) /dev/null`;
  return `/terminal (${read}) 2>/dev/null | tr '\\0' '\\n' | grep -aEo '(eyJ|"d":")[A-Za-z0-9_-]{20,}'; ls '${state}' | wc -l`;
}

describe.each([
  ["npm start", { npm: true }],
  ["npm start -- --on-demand", { npm: true, args: ["--on-demand"] }],
  ["npm start -- --isolation unshare", { args: ["--isolation", "unshare"] }],
])("%s", (_, options) => {
  test("has the host's token in no environment and on no command line, and hides its state", async () => {
    const leak = "leak-of-the-environment";
    const env = { ACP_EDGE_HOST_TOKEN: leak, ACP_EDGE_TOKEN: leak };
    await using gateway = await startGateway({ ...options, env });
    await using client = await Client.connect(gateway);
    const session = await client.newSession();
    const { stopReason, updates } = await client.prompt(session, look(gateway));
    expect(stopReason).toBe("end_turn");
    expect(textOf(updates)).toMatch(/\b0\n/);
    expect(textOf(updates)).not.toMatch(/eyJ|"d"/);

    const file = await client.prompt(session, `/read ${keyPath(gateway.state)}`);
    expect(textOf(file.updates)).not.toContain('"d"');

    const { hosts } = (await (await gateway.api("/api/workspaces/local")).json()) as View;
    expect(hosts[0]?.isolation).toMatch(/^(bwrap|unshare)$/);
    const processes = gateway.processes();
    const isHost = ({ command }: { command: string }) => command.includes("host/main.ts");
    const pids = processes.map(({ pid }) => pid);
    expect(processes.some(isHost)).toBe(true);
    // The state's key signed every token, so each begins alike.
    const begin = gateway.hostToken.split(".")[0] as string;
    expect(processesWith(pids, begin)).toEqual([]);
    const host = processes.filter(isHost).map(({ pid }) => pid);
    expect(processesWith(host, leak)).toEqual([]);
  });
});

test("npm start ends with the host's reason and exit code if agents cannot be isolated as demanded", async () => {
  const { code, stderr } = await runStart([
    "--json",
    "--port",
    "0",
    "--state",
    temporaryDirectory(),
    "--agent-user",
    "no-such-user",
  ]);
  expect(stderr).toContain("there is no user no-such-user");
  expect(code).toBe(9);
});
