import { setTimeout as sleep } from "node:timers/promises";
import type { ReadyInfo } from "./startup-banner.ts";

const POLL_MS = 50;

/** The part of GET /api/workspaces/:id that shows whether an agent is ready for a prompt. */
type Workspace = {
  hosts?: { state?: string }[];
  agents?: { default?: boolean; ready?: boolean; error?: string | null }[];
};

type Access = Pick<ReadyInfo, "url" | "workspace" | "token">;

/** Rejects if the gateway answers but lets nobody in, because its configuration is wrong. */
export async function waitForGateway({ url, token }: Access, signal: AbortSignal): Promise<void> {
  await poll(
    signal,
    Number.POSITIVE_INFINITY,
    async () => (await fetch(`${url}/healthz`, { signal })).status === 200,
  );
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`${url}/api/sessions?limit=1`, { headers, signal });
  if (!response.ok)
    throw new Error(
      "the gateway lets nobody in: check ACP_EDGE_AUTH_ISSUERS, the reason is in the log above",
    );
}

/** False if the agent was not ready in time. */
export async function waitForAgent(
  { url, workspace, token }: Access,
  withinMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  const headers = { authorization: `Bearer ${token}` };
  return poll(signal, withinMs, async () => {
    const response = await fetch(`${url}/api/workspaces/${workspace}`, { headers, signal });
    return response.ok && hasReadyAgent((await response.json()) as Workspace);
  });
}

/** Enables containers for the workspace, unless its settings configure them already. */
export async function enableContainer({ url, workspace, token }: Access, signal: AbortSignal): Promise<void> {
  const address = `${url}/api/workspaces/${workspace}`;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const { container } = (await (await fetch(address, { headers, signal })).json()) as { container: unknown };
  if (container !== null) return;
  const body = JSON.stringify({ container: {} });
  const response = await fetch(address, { method: "PUT", headers, body, signal });
  if (!response.ok) throw new Error(`the container could not be enabled: ${await response.text()}`);
}

function hasReadyAgent({ hosts = [], agents = [] }: Workspace): boolean {
  const agent = agents.find((offer) => offer.default) ?? agents[0];
  const here = hosts.some(({ state }) => state === "connected");
  return here && (agent?.ready === true || typeof agent?.error === "string");
}

async function poll(signal: AbortSignal, withinMs: number, check: () => Promise<boolean>): Promise<boolean> {
  const deadline = Date.now() + withinMs;
  while (Date.now() < deadline) {
    if (await check().catch(() => false)) return true;
    await sleep(POLL_MS, undefined, { signal });
  }
  return false;
}
