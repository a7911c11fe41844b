import { describe, expect, test, vi } from "vitest";
import { joinMessage } from "../../src/protocol/resumable-wire.ts";
import { events, get, openSession, workspaceName } from "./fixtures.ts";
import { HELLO, Host } from "./peers/host.ts";
import { dialHost, Peer } from "./peers/peer.ts";
import { Resumable } from "./peers/resumable-client.ts";
import { ALL_OF_A_CLIENT, mint } from "./tokens.ts";

const SECOND = { code: 4400, reason: "a second hello" };

async function joins(workspace: string, count: number): Promise<number> {
  const bearer = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, sub: "boss" });
  return vi.waitUntil(async () => {
    const response = await get("/api/audit?limit=1000&kind=host.joined", bearer);
    const { entries } = (await response.json()) as { entries: { workspace: string }[] };
    const found = entries.filter((entry) => entry.workspace === workspace).length;
    return found >= count && found;
  });
}

describe("a second hello", () => {
  test("ends the socket of a session's host and is not in the log, and the host may come back", async () => {
    const { agent, workspace, sessionId, client } = await openSession();
    const { run, processRequest, delivered } = agent;
    const about = { run, processRequest, delivered, agent: "scripted", host: "h1", root: "/workspace" };
    const hello = JSON.stringify({ t: "hello", draining: false, io: "host", ...about });
    const before = (await events(workspace, sessionId)).length;
    for (let i = 0; i < 20; i += 1) agent.link.send(hello);
    expect(await agent.link.closed).toEqual(SECOND);
    const kinds = (await events(workspace, sessionId)).slice(before).map(({ kind }) => kind);
    expect(kinds).toEqual(["runtime.disconnected"]);
    // Hellos at once: the second one comes while the first one may wait for the workspace.
    const link = new Peer(await dialHost(workspace, `/host/sessions/${sessionId}`));
    for (let i = 0; i < 20; i += 1) link.send(hello);
    expect(await link.closed).toEqual(SECOND);
    await agent.reconnect();
    agent.update("back");
    expect(JSON.stringify(await client.takeJson())).toContain("back");
    const log = (await events(workspace, sessionId)).map(({ kind }) => kind);
    expect(log.filter((kind) => kind === "runtime.reconnected").length).toBeLessThanOrEqual(2);
  });

  test("ends the control socket of a host and is not audited, and the host may come back", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const { name, instance } = host;
    for (let i = 0; i < 20; i += 1) host.send(JSON.stringify({ ...HELLO, name, instance }));
    expect(await host.closed).toEqual(SECOND);
    await Host.join(workspace, { instance });
    expect(await joins(workspace, 2)).toBe(2);
  });

  test("ends the socket of a resumable client, which may come back", async () => {
    const { workspace } = await openSession();
    const client = await Resumable.open(workspace);
    client.peer.send(joinMessage({ t: "hello", own: 0, cursors: {} }));
    expect((await client.peer.closed).code).toBe(4400);
    await client.dial();
    expect((await client.request("session/list", {})).result).toBeDefined();
  });
});
