/** The state that a release leaves is opened by the next one, goes on there, and goes back again. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client, type LogEvent, loggedUpdates, type Reachable, readLog } from "../client.ts";
import { eventually } from "../gateway.ts";
import { streamed, textOf, upTo } from "../updates.ts";
import { type Delivery, Receiver } from "../webhook-receiver.ts";
import { everyRole, Stage } from "./stage.ts";

/** The history is short enough to be archived soon. */
const LIMITS = { historyChars: 400_000, segmentChars: 60_000 };
const HOOK = "/hook";
/** The running turn outlasts the change of the gateway. It says ten words a second. */
const SECONDS = 12;

let stage: Stage;
let receiver: Receiver;
let made: Made;
let people: Record<"carol" | "dave" | "erin" | "leaver" | "stayer", Reachable> & { lifted: string };
beforeAll(async () => {
  receiver = await Receiver.start();
  stage = await Stage.start({ cast: everyRole("old"), isBeforeDeploy: true, limits: LIMITS });
  made = await make();
}, 90_000);
afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
});

type Made = {
  /** A turn is under way, and prompts wait behind it. */
  running: string;
  /** A turn waits for a permission. */
  asking: string;
  /** Part of the log is in the archive: of one session by either release. */
  archived: string[];
  imported: string;
  closed: string;
  share: { token: string };
  /** The logs, as the release before has left them. */
  logs: Map<string, string>;
};

test("a deploy finds all of it, and every session goes on", async () => {
  await stage.serve(everyRole("new"));
  await holds();
  await using client = await Client.connect(stage);
  await client.load(made.running);
  await client.hears(made.running, "prompts: 3");
  expect(ticksOf(await readLog(stage, made.running))).toEqual(upTo(10 * SECONDS));

  const [permission] = await pending();
  expect(permission?.sessionId).toBe(made.asking);
  const answered = await post(`/api/permissions/${permission?.id}`, { optionId: "allow" });
  expect(answered.status).toBe(200);
  await eventually(async () =>
    textOf(loggedUpdates(await readLog(stage, made.asking))).includes("Permission selected: allow"),
  );
  await receiver.receives(ofSession(made.asking, "turn.ended"));
  made.archived.push(await archivedSession(client));
  await goOn(client);
  await keepLogs();
});

test("a rollback finds all of it, and every session goes on", async () => {
  people = await meetPeople();
  await stage.serve(everyRole("old"));
  await holds();
  await changeRights();
  await using client = await Client.connect(stage);
  await goOn(client);
  await keepLogs();
});

test("the next deploy finds the work of both", async () => {
  await stage.serve(everyRole("new"));
  await rightsAreKept();
  await holds();
  await using client = await Client.connect(stage);
  await goOn(client);
});

/** People whose tokens the objects of subjects know, before a release without such objects changes their rights. */
async function meetPeople(): Promise<typeof people> {
  const [carol, dave, erin] = await Promise.all([stage.as("carol"), stage.as("dave"), stage.as("erin")]);
  const [leaver, stayer] = await Promise.all([stage.as("frank"), stage.as("grace")]);
  for (const one of [carol, dave, leaver, stayer]) expect(await statusFor(one)).toBe(200);
  const made = await post("/api/revocations", { subject: "erin" });
  const { id: lifted } = (await made.json()) as { id: string };
  expect(await statusFor(erin)).toBe(401);
  return { carol, dave, erin, leaver, stayer, lifted };
}

async function changeRights(): Promise<void> {
  const { carol, dave, erin, leaver, stayer, lifted } = people;
  expect((await post("/api/revocations", { subject: "carol" })).status).toBe(201);
  expect((await post("/api/revocations", { jti: jtiOf(dave) })).status).toBe(201);
  const Cookie = `acp_edge_session=${leaver.token}`;
  expect((await fetch(`${stage.url}/api/logout`, { method: "POST", headers: { Cookie } })).status).toBe(204);
  expect((await stage.api(`/api/revocations/${lifted}`, { method: "DELETE" })).ok).toBe(true);
  await rightsAreKept();
  expect(await statusFor(erin)).toBe(200);
  for (const one of [carol, dave]) expect(await statusFor(one)).toBe(401);
  expect(await statusFor(stayer)).toBe(200);
}

/** The first request of each person finds its right: nobody has asked before. */
async function rightsAreKept(): Promise<void> {
  const { carol, dave, erin, leaver, stayer } = people;
  const statuses = await Promise.all([carol, dave, leaver, erin, stayer].map(statusFor));
  expect(statuses).toEqual([401, 401, 401, 200, 200]);
}

function jtiOf({ token }: Reachable): string {
  const [, claims = ""] = token.split(".");
  return (JSON.parse(Buffer.from(claims, "base64url").toString()) as { jti: string }).jti;
}

async function make(): Promise<Made> {
  const client = await Client.connect(stage);
  const settings = { name: "The stage", policy: { default: "ask" } };
  expect((await stage.api("/api/workspaces/local", json("PUT", settings))).status).toBe(200);
  expect((await stage.api("/api/workspaces/local/secrets/KEY", json("PUT", { value: "v" }))).ok).toBe(true);
  await receiver.hook(stage, HOOK);

  const archived = [await archivedSession(client)];
  const closed = await client.newSession();
  await client.prompt(closed, "/stream 3 20");
  const tar = await (await stage.api(`/api/sessions/${closed}/export`)).arrayBuffer();
  const copy = await stage.api("/api/sessions/import?as=new", { method: "POST", body: tar });
  const { sessionId: imported } = (await copy.json()) as { sessionId: string };
  await client.agent.request("session/close", { sessionId: closed });

  const share = (await (await post("/api/shares", { session: closed })).json()) as Made["share"];
  expect((await post("/api/revocations", { subject: "mallory" })).status).toBe(201);

  const asking = await client.newSession();
  client.prompt(asking, "/permission").catch(() => {});
  await eventually(async () => (await pending()).length === 1);
  const running = await client.newSession();
  client.prompt(running, `/slow ${SECONDS}`).catch(() => {});
  await client.hears(running, "tick 2 ");
  for (const text of ["/history", "/history"]) client.prompt(running, text).catch(() => {});
  await eventually(async () => (await queueOf(running)).length === 2);
  made = { running, asking, archived, imported, closed, share, logs: new Map() };
  await keepLogs();
  return made;
}

async function archivedSession(client: Client): Promise<string> {
  const session = await client.newSession();
  for (let turn = 0; turn < 9; turn += 1) await client.prompt(session, "/stream 100 400");
  await eventually(async () => (await readLog(stage, session)).some(({ kind }) => kind === "log.archived"));
  return session;
}

/** Holds for the state of either release, in either release. */
async function holds(): Promise<void> {
  await eventually(async () => {
    const view = (await (await stage.api("/api/workspaces/local")).json()) as { hosts: { state: string }[] };
    return view.hosts.some(({ state }) => state === "connected");
  });
  for (const [session, before] of made.logs) {
    const log = await (await stage.api(`/api/sessions/${session}/events`)).text();
    expect(log.slice(0, before.length)).toBe(before);
  }
  const { sessions } = (await (await stage.api("/api/sessions?limit=100")).json()) as {
    sessions: { sessionId: string }[];
  };
  expect(sessions.map(({ sessionId }) => sessionId)).toEqual(expect.arrayContaining([...made.logs.keys()]));

  expect(await (await stage.api("/api/workspaces/local")).json()).toMatchObject({
    name: "The stage",
    policy: { default: "ask" },
  });
  const { secrets } = (await (await stage.api("/api/workspaces/local/secrets")).json()) as {
    secrets: object[];
  };
  expect(secrets).toMatchObject([{ name: "KEY" }]);
  const { webhooks } = (await (await stage.api("/api/workspaces/local/webhooks")).json()) as {
    webhooks: object[];
  };
  expect(webhooks).toHaveLength(1);

  expect(await statusFor(await stage.as("mallory"))).toBe(401);
  expect(await statusFor(await stage.as("alice"))).toBe(200);
  const shared = await fetch(`${stage.url}/api/sessions/${made.closed}`, {
    headers: { authorization: `Bearer ${made.share.token}` },
  });
  expect(shared.status).toBe(200);
  const audit = await (await stage.api("/api/audit?limit=100")).text();
  expect(audit).toContain("mallory");
}

/** Each session that takes prompts runs one. */
async function goOn(client: Client): Promise<void> {
  for (const session of [made.running, made.asking, made.imported, ...made.archived]) {
    await client.load(session);
    const { stopReason, updates } = await client.prompt(session, "/stream 4 30");
    expect(stopReason).toBe("end_turn");
    expect(streamed(updates)).toEqual(upTo(4));
    await receiver.receives(ofSession(session, "turn.ended"));
  }
  for (const session of made.archived) {
    const log = await readLog(stage, session);
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
  }
  await expect(client.prompt(made.closed, "/stream 4 30")).rejects.toMatchObject({
    code: expect.any(Number),
  });
}

async function keepLogs(): Promise<void> {
  for (const session of [made.running, made.asking, ...made.archived, made.imported, made.closed])
    made.logs.set(session, await (await stage.api(`/api/sessions/${session}/events`)).text());
}

async function pending(): Promise<{ id: string; sessionId: string }[]> {
  const answer = (await (await stage.api("/api/permissions")).json()) as {
    permissions: { id: string; sessionId: string }[];
  };
  return answer.permissions;
}

async function queueOf(session: string): Promise<unknown[]> {
  const view = (await (await stage.api(`/api/sessions/${session}`)).json()) as { queue: unknown[] };
  return view.queue;
}

async function statusFor({ api }: Reachable): Promise<number> {
  return (await api("/api/sessions")).status;
}

function ticksOf(log: LogEvent[]): number[] {
  const text = textOf(loggedUpdates(log));
  return [...text.matchAll(/tick (\d+) of/g)].map((match) => Number(match[1]) - 1);
}

function ofSession(session: string, type: string) {
  return ({ path, message }: Delivery) =>
    path === HOOK && message.data.sessionId === session && message.type === type;
}

function json(method: string, body: object): RequestInit {
  return { method, body: JSON.stringify(body), headers: { "content-type": "application/json" } };
}

function post(path: string, body: object): Promise<Response> {
  return stage.api(path, json("POST", body));
}
