import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { OfferedAgent } from "../../../src/host/agent/offered-agents.ts";
import { Host, type HostOptions } from "../../../src/host/host.ts";
import type { Isolation } from "../../../src/host/isolation/isolation.ts";
import type { Gateway } from "../../../src/node/gateway-socket.ts";
import { DEFAULT_TIMING, type Timing } from "../../../src/node/timing.ts";
import { DEFAULT_LIMITS, type Limits } from "../../../src/protocol/limits.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";
import { FakeGateway } from "./fake-gateway.ts";

const QUICK: Timing = {
  ...DEFAULT_TIMING,
  retryMinMs: 5,
  retryMaxMs: 50,
  killAfterMs: 300,
  warmDelayMs: 1,
  warmRetryMinMs: 5,
  warmRetryMaxMs: 50,
  lingerMs: 500,
  gitDelayMs: 5,
  gitEveryMs: 10,
  loadDelayMs: 5,
};

export const FIXTURE = fileURLToPath(new URL("fixtures/agent.mjs", import.meta.url));

/** The fixture agent with one of its behaviours. It is not the default agent, so no warm process starts. */
export function fixture(id: string, ...args: string[]): OfferedAgent {
  return { id, name: id, command: [process.execPath, FIXTURE, ...args], default: false };
}

export type Running = { gateway: FakeGateway; host: Host; root: string; log: string[]; refusals: string[] };

/** A host with a gateway and an empty workspace. All three are removed after the test. */
export async function startHost(
  options: {
    agents?: OfferedAgent[];
    timing?: Partial<Timing>;
    limits?: Partial<Limits>;
    token?: Gateway["token"];
    isolation?: (root: string) => Isolation;
  } & Pick<HostOptions, "maxAgents" | "agentLimits"> = {},
): Promise<Running> {
  const gateway = await FakeGateway.start();
  const root = temporaryDirectory();
  const log: string[] = [];
  const refusals: string[] = [];
  const host = new Host({
    gateway: {
      url: gateway.url,
      token: options.token ?? (() => "secret"),
      timing: { ...QUICK, ...options.timing },
      limits: { ...DEFAULT_LIMITS, ...options.limits },
      log: (event) => log.push(event),
    },
    workspace: "w",
    name: "test-host",
    root,
    agents: options.agents ?? [fixture("fixture")],
    maxAgents: options.maxAgents,
    agentLimits: options.agentLimits ?? {},
    ...(options.isolation && { isolation: options.isolation(root) }),
    onRefused: (reason) => refusals.push(reason),
  });
  onTestFinished(async () => {
    await host.close();
    gateway.close();
  });
  return { gateway, host, root, log, refusals };
}

/** Whether a process exists. A zombie does not count. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readStatus(pid));
  } catch {
    return false;
  }
}

function readStatus(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return "";
  }
}
