import { beforeAll, describe, expect, test } from "vitest";
import { encodeLink } from "../../../src/protocol/host-wire.ts";
import { events, get, openSession, send } from "../fixtures.ts";
import { permissionRequest, updateText } from "../peers/agent.ts";
import { HELLO } from "../peers/host.ts";
import { Peer } from "../peers/peer.ts";
import { ALL_OF_A_CLIENT, type Claims, mint } from "../tokens.ts";

/**
 * Every kind of host × everything that a host can open or send about a session that is not placed on it. A host gets an
 * HTTP status, a close code or the first answer; the session and its workspace stay as they are.
 */

type Place = Awaited<ReturnType<typeof makePlace>>;

/** A session that host h1 runs, and a second one whose process h1 has been asked for and has not started. */
async function makePlace() {
  const opened = await openSession();
  const { client, host, workspace } = opened;
  client.call("session/new", { cwd: "/", mcpServers: [] });
  const { sessionId: awaiting, processRequest } = await host.order();
  const boss = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, sub: "boss" });
  return { ...opened, awaiting, processRequest, boss };
}

/** A host: the claims of its token, and the name that it says it has. */
type Kind = { claims: (place: Place) => Claims; says: string };

const KINDS: Record<string, Kind> = {
  "of another tenant": { claims: () => ({ tenant: "umbrella" }), says: "h1" },
  "of another workspace": { claims: () => ({ workspaces: ["elsewhere"] }), says: "h1" },
  "with a client's token": { claims: () => ({ scopes: ALL_OF_A_CLIENT }), says: "h1" },
  "with an expired token": { claims: () => ({ exp: -60 }), says: "h1" },
  "with a revoked token": { claims: ({ workspace }) => ({ jti: `revoked-${workspace}` }), says: "h1" },
  "of another name": { claims: () => ({ host: "h2" }), says: "h2" },
  "of another name that says it is the session's": { claims: () => ({ host: "h2" }), says: "h1" },
  "without a name in its token": { claims: () => ({}), says: "h2" },
};

type Outcome = number | string;

function hello(place: Place, kind: Kind, more: object): string {
  const about = { agent: "scripted", host: kind.says, root: "/", delivered: 0, draining: false };
  const { run, processRequest } = place.agent;
  return JSON.stringify({ t: "hello", ...about, run, processRequest, ...more });
}

const ITEMS = [
  updateText("forged"),
  permissionRequest(66),
  '{"jsonrpc":"2.0","id":67,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}',
  JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]),
];

/** Each act dials one socket and sends messages. */
const ACTS: Record<string, (place: Place, kind: Kind) => { path: string; messages: string[] }> = {
  "hello for the running process": (place, kind) => ({
    path: `/host/sessions/${place.sessionId}`,
    messages: [hello(place, kind, {})],
  }),
  "hello for the running process, with the files of clients": (place, kind) => ({
    path: `/host/sessions/${place.sessionId}`,
    messages: [hello(place, { ...kind, says: "h2" }, { io: "client" })],
  }),
  "hello for a process of its own": (place, kind) => ({
    path: `/host/sessions/${place.sessionId}`,
    messages: [hello(place, kind, { run: crypto.randomUUID() })],
  }),
  "hello for the process that the session waits for": (place, kind) => ({
    path: `/host/sessions/${place.awaiting}`,
    // A token without a name could say h1's name here: only the name tells two hosts of a workspace apart.
    messages: [hello(place, kind, { run: crypto.randomUUID(), processRequest: place.processRequest })],
  }),
  "hello for an earlier request": (place, kind) => ({
    path: `/host/sessions/${place.awaiting}`,
    messages: [hello(place, kind, { run: crypto.randomUUID(), processRequest: place.processRequest - 1 })],
  }),
  "items without a hello": ({ sessionId }) => ({
    path: `/host/sessions/${sessionId}`,
    messages: [encodeLink({ t: "lines", first: 1 }, ITEMS)],
  }),
  "items after a refused hello": (place, kind) => ({
    path: `/host/sessions/${place.awaiting}`,
    messages: [
      hello(place, kind, { run: crypto.randomUUID(), processRequest: place.processRequest }),
      encodeLink({ t: "lines", first: 1 }, ITEMS),
    ],
  }),
  "the control socket under the name of the session's host": ({ workspace }) => ({
    path: `/host/control?workspace=${workspace}`,
    messages: [JSON.stringify({ ...HELLO, name: "h1", instance: crypto.randomUUID() })],
  }),
  "reports without a hello": ({ workspace }) => ({
    path: `/host/control?workspace=${workspace}`,
    messages: [
      '{"t":"draining"}',
      '{"t":"offers","agents":[]}',
      '{"t":"agent_failed","id":"scripted","error":"forged"}',
      '{"t":"load","runs":0,"loadAverage":0,"freeMemory":1}',
      "nonsense",
    ],
  }),
};

const LINK_ACTS = Object.keys(ACTS).slice(0, 7);
const everywhere = (outcome: Outcome) =>
  Object.fromEntries(Object.keys(ACTS).map((act) => [act, outcome])) as Record<string, Outcome>;
const linksOnly = (outcome: Outcome) => Object.fromEntries(LINK_ACTS.map((act) => [act, outcome]));
const [, , , , , , , CONTROL = "", REPORTS = ""] = Object.keys(ACTS);

const EXPECTED: Record<string, Record<string, Outcome>> = {
  // The other tenant has a workspace of its own under this name.
  "of another tenant": { ...linksOnly(404), [CONTROL]: "welcome", [REPORTS]: 4400 },
  "of another workspace": everywhere(404),
  "with a client's token": everywhere(403),
  "with an expired token": everywhere(401),
  "with a revoked token": everywhere(401),
  "of another name": { ...linksOnly(4409), [CONTROL]: "refused token", [REPORTS]: 4400 },
  "of another name that says it is the session's": {
    ...linksOnly(4409),
    [CONTROL]: "refused token",
    [REPORTS]: 4400,
  },
  "without a name in its token": { ...linksOnly(4409), [CONTROL]: "refused name", [REPORTS]: 4400 },
};

async function outcomeOf(place: Place, kind: Kind, act: (typeof ACTS)[string]): Promise<Outcome> {
  const { path, messages } = act(place, kind);
  const claims = { workspaces: [place.workspace], scopes: ["host"], sub: "rogue", ...kind.claims(place) };
  const peer = await Peer.connect(path, await mint(claims)).catch((error: Error) => error);
  if (peer instanceof Error) return Number(/No socket: (\d+)/.exec(peer.message)?.[1]);
  for (const message of messages) peer.send(message);
  const answer = peer.takeJson().then(({ t, why }) => (why === undefined ? String(t) : `${t} ${why}`));
  return Promise.race([answer, peer.closed.then(({ code }) => code)]);
}

describe.each(Object.entries(KINDS))("[I13] a host %s", (name, kind) => {
  let place: Place;
  beforeAll(async () => {
    place = await makePlace();
    const order = { jti: `revoked-${place.workspace}`, workspace: place.workspace };
    expect((await send("POST", "/api/revocations", place.boss, order)).status).toBe(201);
  });

  test.each(Object.entries(ACTS))("%s", async (act, make) => {
    const { workspace, sessionId, awaiting, boss, client, agent } = place;
    const look = async () => ({
      running: (await events(workspace, sessionId)).map(({ kind: of }) => of),
      awaiting: (await events(workspace, awaiting)).map(({ kind: of }) => of),
    });
    const before = await look();
    expect(await outcomeOf(place, kind, make)).toBe(EXPECTED[name]?.[act]);
    expect(await look()).toEqual(before);
    const view = (await (await get(`/api/workspaces/${workspace}`, boss)).json()) as {
      hosts: { name: string; state: string }[];
      agents: { available: boolean; error: string | null }[];
    };
    expect(view.hosts).toMatchObject([{ name: "h1", state: "connected" }]);
    expect(view.agents).toMatchObject([{ available: true, error: null }]);
    // The session's own process still serves it, and nobody else has spoken.
    agent.update("real");
    expect(await client.takeJson()).toMatchObject({ params: { update: { content: { text: "real" } } } });
  });
});
