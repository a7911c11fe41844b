import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { derivedUuid, publicUuid } from "../../src/durable/derived-uuid.ts";
import type { OpenRequest } from "../../src/protocol/rpc.ts";
import type { Json } from "../fixtures/json.ts";
import { events, sessionStub, workspaceName } from "./fixtures.ts";
import { Host } from "./peers/host.ts";
import { Resumable } from "./peers/resumable-client.ts";
import { given, user } from "./quotas/fixtures.ts";
import { mint } from "./tokens.ts";
import { foreign, tarOf, upload } from "./transfer/fixtures.ts";

const NEW = { method: "session/new", params: { cwd: "/", mcpServers: [] } };

type Stored = { connection: string; sessionIds?: { secret: string; hasPublicIds?: true } };

const storedState = (client: Resumable): Promise<Stored> =>
  runInDurableObject(client.object, (_, { storage }) => {
    const [row] = storage.sql.exec<{ state: string }>("SELECT state FROM connection").toArray();
    return JSON.parse(row?.state ?? "null") as Stored;
  });

/** The connection's object loses its memory and its socket, as in a crash before anything was acknowledged. */
async function crash(client: Resumable): Promise<void> {
  await runInDurableObject(client.object, (_, state) => {
    for (const socket of state.getWebSockets()) socket.serializeAttachment(null);
    state.abort();
  }).catch(() => {});
}

/** Imports a session with one event under the given id, into a workspace of its own. */
async function occupy(sessionId: string): Promise<string> {
  const workspace = workspaceName();
  const line = foreign(sessionId, 1, { acpSessionId: null });
  const archive = await tarOf([["events/000000000001.ndjson", `${line}\n`]]);
  expect((await upload(archive, { workspace })).status).toBe(201);
  return workspace;
}

const idIn = (response: Json) => (response.result as { sessionId: string }).sessionId;

async function answer(client: Resumable, id: string): Promise<Json> {
  await client.until(() => client.answers(id).length > 0);
  return client.answers(id)[0] as Json;
}

describe("the id of a resumable client's session", () => {
  test("does not follow from anything that others see", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Resumable.open(workspace);
    const guesses = await Promise.all(
      Array.from({ length: 12 }, (_, number) => publicUuid(`${client.connection}/${number}`)),
    );
    await occupy(guesses[2] as string);
    client.send([{ id: "new", ...NEW }]);
    await (await host.agent()).openSession();
    expect(guesses).not.toContain(idIn(await answer(client, "new")));
  });

  test("is of no use to whoever occupies it: the client gets an error, and its next request works", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Resumable.open(workspace);
    const { secret = "" } = (await storedState(client)).sessionIds ?? {};
    const taken = await derivedUuid(secret, "session/2");
    const elsewhere = await occupy(taken);
    const before = await events(elsewhere, taken);
    const mcpServers = [{ name: "db", command: "db", args: [], env: [{ name: "KEY", value: "hunter2" }] }];
    client.send([{ id: "new", method: "session/new", params: { cwd: "/", mcpServers } }]);
    const { error } = await answer(client, "new");
    expect(error).toEqual({ code: -32600, message: "The session could not be opened: ask for another one" });
    expect(await events(elsewhere, taken)).toEqual(before);
    const rows = await runInDurableObject(sessionStub(taken), (_, { storage }) => [
      ...storage.sql.exec("SELECT 1 FROM concealed_value"),
      ...storage.sql.exec("SELECT 1 FROM client"),
    ]);
    expect(rows).toEqual([]);
    client.send([{ id: "again", ...NEW }]);
    await (await host.agent()).openSession();
    expect(idIn(await answer(client, "again"))).not.toBe(taken);
  });

  test("stays the same when the client repeats its frames: one session, one fork, each counted once", async () => {
    const workspace = workspaceName();
    const owner = await user({ tenant: "acme", sub: crypto.randomUUID(), workspaces: [workspace] });
    const host = await Host.join(workspace);
    const client = await Resumable.open(workspace, { bearer: owner.bearer });
    client.send([{ id: "first", ...NEW }]);
    await (await host.agent()).openSession();
    const sessionId = idIn(await answer(client, "first"));
    const frames = [
      { id: "new", ...NEW },
      { id: "fork", method: "session/fork", params: { sessionId, cwd: "/", mcpServers: [] } },
    ];
    client.send(frames);
    const fork = idIn(await answer(client, "fork"));
    await crash(client);
    await client.dial();
    expect(client.received).toBeLessThan(4);
    client.send(frames, 3);
    await client.until(() => client.received === 4);
    await (await host.agent()).openSession();
    await answer(client, "new");
    await client.request("session/list", {});
    expect(client.answers("new")).toHaveLength(1);
    expect(client.answers("fork").map(idIn)).toEqual([fork]);
    const opened = await runInDurableObject(client.object, (_, { storage }) =>
      storage.sql.exec("SELECT id FROM stream WHERE attached = 1").toArray(),
    );
    expect(opened).toHaveLength(3);
    expect(await given(owner, "sessions")).toBe(3);
  });

  test("of an earlier build, made from the connection's id, is still found by a repeated frame", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const bearer = await mint({ workspaces: [workspace] });
    const client = await Resumable.open(workspace, { bearer });
    const { connection, ...state } = (await storedState(client)) as Stored & Pick<OpenRequest, "caller">;
    const before = await publicUuid(`${connection}/2`);
    await runInDurableObject(client.object, (_, { storage }) => {
      storage.sql.exec("UPDATE connection SET state = json_remove(state, '$.sessionIds')");
      storage.sql.exec("INSERT INTO stream (id, attached) VALUES (?, 1)", before);
    });
    const raw = JSON.stringify({ jsonrpc: "2.0", id: "new", ...NEW });
    const subscriptions = { turnEnds: false, agent: false, serves: [] };
    const order = { sessionId: before, connection, caller: state.caller, workspace, agent: "", raw };
    expect(await sessionStub(before).open({ ...order, subscriptions })).toMatchObject({ ok: true });
    await crash(client);
    await client.dial();
    client.send(
      [
        { id: "new", ...NEW },
        { id: "next", ...NEW },
      ],
      2,
    );
    for (const agent of [await host.agent(), await host.agent()]) await agent.openSession();
    expect(idIn(await answer(client, "new"))).toBe(before);
    expect(idIn(await answer(client, "next"))).not.toBe(await publicUuid(`${connection}/3`));
    expect((await storedState(client)).sessionIds).toMatchObject({ hasPublicIds: true });
    expect((await events(workspace, before)).filter(({ kind }) => kind === "session.requested")).toHaveLength(
      1,
    );
  });
});

describe("a session under an id that a client asks for", () => {
  test("continues for the same connection, owner, tenant and workspace only", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const client = await Resumable.open(workspace, { bearer: await mint({ workspaces: ["w*"] }) });
    const { caller } = (await storedState(client)) as Stored & Pick<OpenRequest, "caller">;
    const sessionId = crypto.randomUUID();
    const order: OpenRequest = {
      ...{ sessionId, connection: client.connection, caller, workspace, agent: "scripted", raw: null },
      subscriptions: { turnEnds: false, agent: false, serves: [] },
    };
    const session = sessionStub(sessionId);
    expect(await session.open(order)).toMatchObject({ ok: true });
    const raw = JSON.stringify({ jsonrpc: "2.0", id: 1, ...NEW });
    const strangers: Partial<OpenRequest>[] = [
      { connection: crypto.randomUUID() },
      { caller: { ...caller, subject: "bob" } },
      { caller: { ...caller, tenant: "other" } },
      { caller: { ...caller, scopes: ["session:read"] } },
      { workspace: workspaceName() },
    ];
    const rows = () =>
      runInDurableObject(session, (_, { storage }) => storage.sql.exec("SELECT * FROM log").toArray());
    const before = await rows();
    for (const stranger of strangers) {
      const opened = await session.open({ ...order, ...stranger, raw });
      expect(opened, JSON.stringify(stranger)).toMatchObject({ ok: false, refusal: { reason: "conflict" } });
    }
    expect(await rows()).toEqual(before);
    expect(await session.open({ ...order, raw })).toMatchObject({ ok: true });
    expect(await rows()).not.toEqual(before);
  });
});
