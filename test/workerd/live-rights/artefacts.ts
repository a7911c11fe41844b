import { env, exports } from "cloudflare:workers";
import { decodeJwt, exportJWK, generateKeyPair } from "jose";
import { expect, vi } from "vitest";
import type { WebhookInfo } from "../../../src/protocol/rest.ts";
import { mintHostToken } from "../../../src/workspace/container/minted-token.ts";
import type { Json } from "../../fixtures/json.ts";
import { type Opened, socketsOf } from "../fixtures.ts";
import { permissionRequest, questionRequest } from "../peers/agent.ts";
import type { Client } from "../peers/client.ts";
import { HELLO } from "../peers/host.ts";
import { EventReader, HttpPeer, INITIALIZE, JSON_TYPE, request } from "../peers/http-client.ts";
import { Peer } from "../peers/peer.ts";
import { Resumable } from "../peers/resumable-client.ts";
import { CONTROLLER, mint, WORKSPACE_ADMIN } from "../tokens.ts";
import { receiver } from "../webhooks/fixtures.ts";
import { ask, connect } from "./fixtures.ts";

/** Everything that a token opens, or makes and leaves behind: the rows of the table of revocations. */

/** Whose the artefact is: the token that opened or made it, and another token of its subject. */
export type Owner = { subject: string; jti: string; otherJti: string };

export type Artefact = {
  owner: Owner;
  /** Whether the opened or made thing still works. */
  works: () => Promise<boolean>;
  /** Whether the thing can be had again, where an ended one does not come back by itself. */
  again?: () => Promise<boolean>;
};

type Make = (place: Opened) => Promise<Artefact>;

function newOwner(): Owner {
  return { subject: crypto.randomUUID(), jti: crypto.randomUUID(), otherJti: crypto.randomUUID() };
}

/** A token of a new owner, without the rights of an administrator: those see revoked sessions. */
async function user({ workspace }: Opened, scopes: string[] = [...CONTROLLER, "share"]) {
  const owner = newOwner();
  const { subject: sub, jti } = owner;
  return { owner, bearer: await mint({ workspaces: [workspace], sub, jti, scopes }) };
}

const host = (place: Opened) => user(place, ["host"]);

async function ok(path: string, bearer: string): Promise<boolean> {
  const response = await ask("GET", path, bearer);
  await response.body?.cancel();
  return response.status === 200;
}

/** The subject's object knows the socket, so that the revocation finds it. */
async function registered(subject: string): Promise<void> {
  expect(await socketsOf(subject)).not.toEqual([]);
}

/** The agent's requests of this file have ids of their own. */
let requests = 70;

/** Whether the socket answers before it closes. */
function answers(peer: Peer, answer: () => Promise<unknown>): Promise<boolean> {
  return Promise.race([peer.closed.then(() => false), answer().then(() => true)]);
}

const listed = (client: Client) => answers(client, () => client.request("session/list", {}));

/** The gateway answers the ping of a host's socket. */
function pongs(peer: Peer): Promise<boolean> {
  return answers(peer, async () => {
    peer.send("ping");
    while ((await peer.take()) !== "pong");
  });
}

/** Whether an update of the agent arrives before the stream ends. */
async function arrives(reader: EventReader, { agent }: Opened): Promise<boolean> {
  const text = crypto.randomUUID();
  agent.update(text);
  for (;;) {
    const event = await reader.next();
    if (!event) return false;
    if (JSON.stringify(event.message).includes(text)) return true;
  }
}

async function liveLog({ sessionId }: Opened, bearer: string): Promise<EventReader> {
  const response = await exports.default.fetch(`https://edge.test/api/sessions/${sessionId}/events`, {
    headers: { Authorization: `Bearer ${bearer}`, Accept: "text/event-stream" },
  });
  expect(response.status).toBe(200);
  return new EventReader(response);
}

async function attached({ sessionId }: Opened, bearer: string): Promise<Client> {
  const { client } = await connect(bearer);
  await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
  return client;
}

async function share(place: Opened): Promise<{ owner: Owner; token: string; subject: string }> {
  const { owner, bearer } = await user(place);
  const made = await ask("POST", "/api/shares", bearer, { session: place.sessionId });
  expect(made.status).toBe(201);
  const { token, id } = (await made.json()) as { token: string; id: string };
  return { owner, token, subject: `share:${id}` };
}

async function webhook(place: Opened) {
  const { owner, bearer } = await user(place, WORKSPACE_ADMIN);
  const { url, made } = await orderWebhook(place, bearer);
  const { id } = (await made.json()) as WebhookInfo;
  return { owner, url, id };
}

async function orderWebhook({ workspace }: Opened, bearer: string): Promise<{ url: string; made: Response }> {
  const url = `https://receiver.test/${crypto.randomUUID()}`;
  const order = { url, links: true, events: ["permission.pending"] };
  const made = await ask("POST", `/api/workspaces/${workspace}/webhooks`, bearer, order);
  const { secret } = (await made.clone().json()) as { secret?: string };
  if (secret !== undefined) receiver.secrets.set(url, secret);
  return { url, made };
}

/** Whether the next message of the place's session is delivered. */
async function delivers(place: Opened, url: string, id: string): Promise<boolean> {
  const { workspace } = place;
  const admin = await mint({ workspaces: [workspace], scopes: WORKSPACE_ADMIN });
  const waits = async () => {
    const response = await ask("GET", `/api/workspaces/${workspace}/webhooks`, admin);
    const { webhooks } = (await response.json()) as { webhooks: WebhookInfo[] };
    const one = webhooks.find((each) => each.id === id);
    return one?.pausedReason === "maker-revoked" && one.waiting > 0;
  };
  const before = messagesTo(url).length;
  place.agent.items(permissionRequest(requests++));
  await vi.waitUntil(async () => messagesTo(url).length > before || (await waits()), { timeout: 10_000 });
  return messagesTo(url).length > before;
}

/** The messages that a receiver has got. */
const messagesTo = (url: string) => receiver.received.filter((message) => message.url === url);

async function answerable(url: string): Promise<boolean> {
  const response = await exports.default.fetch(url);
  await response.body?.cancel();
  return response.status === 200;
}

export const ARTEFACTS: Record<string, Make> = {
  "a token's requests": async (place) => {
    const { owner, bearer } = await user(place);
    return { owner, works: () => ok(`/api/sessions/${place.sessionId}`, bearer) };
  },

  "a WebSocket": async (place) => {
    const { owner, bearer } = await user(place);
    const client = await attached(place, bearer);
    await registered(owner.subject);
    const again = async () => listed(await attached(place, bearer));
    return { owner, works: () => listed(client), again };
  },

  "a Streamable HTTP stream": async (place) => {
    const { owner, bearer } = await user(place);
    const open = async () => {
      const response = await request("POST", bearer, JSON_TYPE, INITIALIZE);
      const connection = response.headers.get("Acp-Connection-Id") ?? "";
      const peer = new HttpPeer(bearer, connection, (await response.json()) as Json);
      const { sessionId } = place;
      await peer.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
      return peer.stream(sessionId);
    };
    const reader = await open();
    await registered(owner.subject);
    return { owner, works: () => arrives(reader, place), again: async () => arrives(await open(), place) };
  },

  "a resumable connection": async (place) => {
    const { owner, bearer } = await user(place);
    const open = async () => {
      const client = await Resumable.open(place.workspace, { bearer });
      await client.request("session/load", { sessionId: place.sessionId, cwd: "/", mcpServers: [] });
      return client;
    };
    const client = await open();
    await registered(owner.subject);
    const lists = (one: Resumable) => answers(one.peer, () => one.request("session/list", {}));
    return { owner, works: () => lists(client), again: async () => lists(await open()) };
  },

  "a watcher of live events": async (place) => {
    const { owner, bearer } = await user(place);
    const reader = await liveLog(place, bearer);
    await registered(owner.subject);
    const again = async () => arrives(await liveLog(place, bearer), place);
    return { owner, works: () => arrives(reader, place), again };
  },

  "a share's requests": async (place) => {
    const { owner, token } = await share(place);
    return { owner, works: () => ok(`/api/sessions/${place.sessionId}`, token) };
  },

  "a share's socket": async (place) => {
    const { owner, token, subject } = await share(place);
    const client = await attached(place, token);
    await registered(subject);
    return { owner, works: () => listed(client), again: async () => listed(await attached(place, token)) };
  },

  "a share's live stream": async (place) => {
    const { owner, token, subject } = await share(place);
    const reader = await liveLog(place, token);
    await registered(subject);
    const again = async () => arrives(await liveLog(place, token), place);
    return { owner, works: () => arrives(reader, place), again };
  },

  "a webhook's deliveries": async (place) => {
    const { owner, url, id } = await webhook(place);
    return { owner, works: () => delivers(place, url, id) };
  },

  "the answer links in a webhook's message": async (place) => {
    const { owner, url } = await webhook(place);
    place.agent.items(permissionRequest(requests++));
    await vi.waitUntil(() => messagesTo(url).length > 0, { timeout: 10_000 });
    const text = JSON.stringify(messagesTo(url)[0]?.message);
    const link = /https:[^"]*\/answer\?link=[^"]*/.exec(text)?.[0] ?? "";
    return { owner, works: () => answerable(link) };
  },

  "an answer link": async (place) => {
    const { owner, bearer } = await user(place);
    place.agent.items(permissionRequest(requests++));
    const { id } = await place.client.takeJson();
    const made = await ask("POST", `/api/permissions/${id}/links`, bearer, {});
    expect(made.status).toBe(201);
    const { links } = (await made.json()) as { links: { url: string }[] };
    return { owner, works: () => answerable(links[0]?.url as string) };
  },

  "a link to a question": async (place) => {
    const { owner, bearer } = await user(place);
    place.agent.items(questionRequest(requests++));
    const { id } = await place.client.takeJson();
    const made = await ask("POST", `/api/questions/${id}/links`, bearer, {});
    expect(made.status).toBe(201);
    const { url } = (await made.json()) as { url: string };
    return { owner, works: () => answerable(url) };
  },

  "a host's token": async (place) => {
    const { owner, bearer } = await host(place);
    return { owner, works: () => dials("/host/control", bearer) };
  },

  "a host's control socket": async (place) => {
    const { owner, bearer } = await host(place);
    const control = await Peer.connect("/host/control", bearer);
    control.send(JSON.stringify({ ...HELLO, name: "h2", instance: "i" }));
    return { owner, works: () => pongs(control), again: () => dials("/host/control", bearer) };
  },

  "a host link": async (place) => {
    const { owner, bearer } = await host(place);
    const path = `/host/sessions/${place.sessionId}`;
    const link = await Peer.connect(path, bearer);
    return { owner, works: () => pongs(link), again: () => dials(path, bearer) };
  },

  "a container's token": async ({ workspace }) => {
    env.HOST_SIGNING_KEY ??= await privateKey();
    const place = { tenant: "acme", workspace, host: "container" };
    const { token, jti } = await mintHostToken(env.HOST_SIGNING_KEY, place, 60_000);
    const owner = { subject: decodeJwt(token).sub as string, jti, otherJti: crypto.randomUUID() };
    return { owner, works: () => dials("/host/control", token) };
  },

  "the cookie of a login": async (place) => {
    const { owner, bearer } = await user(place);
    const response = await ask("POST", "/api/login", bearer, { token: bearer });
    const cookie = response.headers.get("Set-Cookie")?.split(";")[0] ?? "";
    const works = async () => {
      const url = `https://edge.test/api/sessions/${place.sessionId}`;
      const answer = await exports.default.fetch(url, { headers: { Cookie: cookie } });
      await answer.body?.cancel();
      return answer.status === 200;
    };
    return { owner, works };
  },
};

/** A key of the gateway's own. The keys of other issuers are refused for this. */
async function privateKey(): Promise<string> {
  const { privateKey: key } = await generateKeyPair("EdDSA", { extractable: true });
  return JSON.stringify({ ...(await exportJWK(key)), alg: "EdDSA", kid: "hosts" });
}

async function dials(path: string, bearer: string): Promise<boolean> {
  const response = await exports.default.fetch(`https://edge.test${path}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
  });
  response.webSocket?.accept();
  response.webSocket?.close();
  return response.status === 101;
}

/** A thing that a token makes and leaves behind, at the moment when its maker is revoked. */
type Making = {
  /** The method by which the tenant learns of it. */
  method: "createShare" | "registerAnswerLinks" | "registerWebhook";
  /** Prepares everything but the making itself, which resolves to the gateway's answer. */
  prepare: (place: Opened) => Promise<{ owner: Owner; bearer: string; make: () => Promise<Response> }>;
  /** Whether the thing in an accepted answer works. */
  works: (place: Opened, made: Json) => Promise<boolean>;
};

/** The addresses of webhooks, by their ids. */
const receivers = new Map<string, string>();

export const MAKINGS: Record<string, Making> = {
  "a share": {
    method: "createShare",
    prepare: async (place) => {
      const maker = await user(place);
      return {
        ...maker,
        make: () => ask("POST", "/api/shares", maker.bearer, { session: place.sessionId }),
      };
    },
    works: ({ sessionId }, { token }) => ok(`/api/sessions/${sessionId}`, token as string),
  },

  "an answer link": {
    method: "registerAnswerLinks",
    prepare: async (place) => {
      const maker = await user(place);
      place.agent.items(permissionRequest(requests++));
      const { id } = await place.client.takeJson();
      return { ...maker, make: () => ask("POST", `/api/permissions/${id}/links`, maker.bearer, {}) };
    },
    works: (_, { links }) => answerable((links as { url: string }[])[0]?.url as string),
  },

  "a link to a question": {
    method: "registerAnswerLinks",
    prepare: async (place) => {
      const maker = await user(place);
      place.agent.items(questionRequest(requests++));
      const { id } = await place.client.takeJson();
      return { ...maker, make: () => ask("POST", `/api/questions/${id}/links`, maker.bearer, {}) };
    },
    works: (_, { url }) => answerable(url as string),
  },

  "a webhook": {
    method: "registerWebhook",
    prepare: async (place) => {
      const maker = await user(place, WORKSPACE_ADMIN);
      const make = async () => {
        const { url, made } = await orderWebhook(place, maker.bearer);
        receivers.set(((await made.clone().json()) as { id: string }).id, url);
        return made;
      };
      return { ...maker, make };
    },
    works: (place, { id }) => delivers(place, receivers.get(id as string) ?? "", id as string),
  },

  "an adopted webhook": {
    method: "registerWebhook",
    prepare: async (place) => {
      const { id, url } = await webhook(place);
      receivers.set(id, url);
      const maker = await user(place, WORKSPACE_ADMIN);
      const path = `/api/workspaces/${place.workspace}/webhooks/${id}/adopt`;
      return { ...maker, make: () => ask("POST", path, maker.bearer) };
    },
    works: (place, { id }) => delivers(place, receivers.get(id as string) ?? "", id as string),
  },
};
