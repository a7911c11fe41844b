import { describe, expect, test, vi } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { get, openSession, send, workspaceName } from "../fixtures.ts";
import { HELLO } from "../peers/host.ts";
import { Peer } from "../peers/peer.ts";
import { ALL_OF_A_CLIENT, type Claims, mint } from "../tokens.ts";

type Detail = { name: string; jti: string | null; level?: string; unusual?: string };

/** Joins as a host; resolves to the gateway's first answer. */
async function join(
  workspace: string,
  name: string,
  claims: Claims,
): Promise<{ control: Peer; answer: Json }> {
  const bearer = await mint({ workspaces: [workspace], scopes: ["host"], sub: "host:1", ...claims });
  const control = await Peer.connect("/host/control", bearer);
  control.send(JSON.stringify({ ...HELLO, name, instance: crypto.randomUUID() }));
  return { control, answer: await control.takeJson() };
}

const boss = (workspace: string) => mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, sub: "boss" });

/** The details of the audited acts of this kind in a workspace, once there are as many. */
async function audited(workspace: string, kind: string, count: number): Promise<Detail[]> {
  return vi.waitUntil(async () => {
    const response = await get(`/api/audit?limit=1000&kind=${kind}`, await boss(workspace));
    const { entries } = (await response.json()) as { entries: { workspace: string; detail: Detail }[] };
    const found = entries.filter((entry) => entry.workspace === workspace).map(({ detail }) => detail);
    return found.length >= count && found;
  });
}

async function hostsOf(workspace: string): Promise<Json[]> {
  const response = await get(`/api/workspaces/${workspace}`, await boss(workspace));
  return ((await response.json()) as { hosts: Json[] }).hosts;
}

describe("a host token with a name", () => {
  test("[I13] lets a host join under that name only", async () => {
    const workspace = workspaceName();
    const { control, answer } = await join(workspace, "rogue", { host: "h1", jti: "one" });
    expect(answer).toMatchObject({ t: "refused", why: "token", reason: expect.stringContaining('"h1"') });
    expect((await control.closed).code).toBe(4401);
    expect(await hostsOf(workspace)).toEqual([]);
    expect(await audited(workspace, "host.refused", 1)).toMatchObject([
      { name: "rogue", level: "warning", unusual: expect.stringContaining("h1") },
    ]);
    expect((await join(workspace, "h1", { host: "h1", jti: "one" })).answer).toEqual({ t: "welcome" });
  });

  test("is renewed by a token of the same name, and never by one that is valid for every name", async () => {
    const workspace = workspaceName();
    const { control } = await join(workspace, "h1", { host: "h1", jti: "one" });
    const renewed = async (claims: Claims) => {
      const more = { workspaces: [workspace], scopes: ["host"], sub: "host:1", exp: 7200, ...claims };
      control.send(JSON.stringify({ t: "renew", token: await mint(more) }));
      return (await control.takeJson()).t;
    };
    expect(await renewed({ jti: "two" })).toBe("not_renewed");
    expect(await renewed({ jti: "two", host: "h2" })).toBe("not_renewed");
    expect(await renewed({ jti: "two", host: "h1" })).toBe("renewed");
    expect(await hostsOf(workspace)).toMatchObject([{ token: { subject: "host:1", jti: "two" } }]);
  });
});

describe("a host that joins", () => {
  test("is shown with its token, and audited loudly if an intruder would look like it", async () => {
    const workspace = workspaceName();
    const container = `host:container:${workspace}`;
    const joins: [string, Claims, RegExp | undefined][] = [
      ["h1", { jti: "a" }, undefined],
      ["h1", { host: "h1", jti: "b" }, undefined],
      ["h2", { host: "h2", jti: "c" }, undefined],
      ["h1", { host: "h1", jti: "d", sub: "host:2" }, /^the name was host:1's before$/],
      ["h3", { jti: "e" }, /^no host had this name before, and its token is valid for every name$/],
      ["h3", { jti: "f" }, undefined],
      ["container", { host: "container", jti: "g", sub: container }, undefined],
      ["container", { host: "container", jti: "h", sub: container }, /another issuer made its token$/],
    ];
    const warned = vi.spyOn(console, "warn");
    for (const [i, [name, claims, unusual]] of joins.entries()) {
      const { control, answer } = await join(workspace, name, claims);
      expect(answer).toEqual({ t: "welcome" });
      const detail = (await audited(workspace, "host.joined", i + 1)).at(-1);
      expect(detail).toMatchObject({ name, jti: claims.jti });
      if (unusual === undefined) expect(detail).not.toHaveProperty("unusual");
      else expect(detail).toMatchObject({ level: "warning", unusual: expect.stringMatching(unusual) });
      const token = { subject: claims.sub ?? "host:1", jti: claims.jti };
      expect((await hostsOf(workspace)).find((host) => host.name === name)).toMatchObject({ token });
      control.socket.close(1000);
      await control.closed;
    }
    const loud = joins.flatMap(([name, , unusual]) => (unusual ? [["unusual host", name]] : []));
    const logged = warned.mock.calls.filter(([text]) => text === "unusual host");
    expect(logged.map(([text, about]) => [text, (about as Detail).name])).toEqual(loud);
    warned.mockRestore();
  });
});

test("revoking the token that the view shows ends the host's sockets and keeps it out", async () => {
  const { workspace, sessionId } = await openSession();
  const bearer = await mint({
    workspaces: [workspace],
    scopes: ["host"],
    sub: "x",
    host: "h9",
    jti: "stolen",
  });
  const control = await Peer.connect("/host/control", bearer);
  control.send(JSON.stringify({ ...HELLO, name: "h9", instance: "i" }));
  expect(await control.takeJson()).toEqual({ t: "welcome" });
  const link = await Peer.connect(`/host/sessions/${sessionId}`, bearer);
  const { token } = (await hostsOf(workspace)).find(({ name }) => name === "h9") as {
    token: { jti: string };
  };
  const order = { jti: token.jti, workspace };
  expect((await send("POST", "/api/revocations", await boss(workspace), order)).status).toBe(201);
  expect((await control.closed).code).toBe(4401);
  expect((await link.closed).code).toBe(4401);
  for (const path of ["/host/control", `/host/sessions/${sessionId}`])
    await expect(Peer.connect(path, bearer)).rejects.toThrow("401");
  expect(await hostsOf(workspace)).toMatchObject([{ name: "h1", state: "connected" }, { state: "gone" }]);
});
