import { DurableObject } from "cloudflare:workers";
import { z } from "zod";
import { answerClose } from "../protocol/close.ts";
import { LIMITS } from "../protocol/limits.ts";
import { type AgentOffer, type GatewayControl, LINK_VERSION } from "../protocol/link.ts";
import { ASK_ALWAYS, type PermissionPolicy } from "../protocol/policy.ts";
import { availableIds, whyNot } from "./offers.ts";
import { type SecretInfo, SecretStore } from "./secrets.ts";

export type AgentInfo = {
  id: string;
  name: string;
  default: boolean;
  /** False: `reason` says what it lacks. */
  available: boolean;
  reason: string | null;
  description: string | null;
  version: string | null;
  /** It has been started before, so that it is known what it can do. */
  ready: boolean;
  /** Why it could not be started when that was last tried. */
  error: string | null;
};
export type WorkspaceView = {
  id: string;
  hosts: { name: string; root: string; connectedAt: string }[];
  agents: AgentInfo[];
  policy: PermissionPolicy;
};
/** What a connection needs to answer `initialize`: the agent it gets, and what that agent said, as JSON. */
export type AgentChoice =
  | { agent: string; initialize: string | null }
  /** It cannot be had; these can. */
  | { refused: string; agents: string[] };

/** One workspace: the hosts that serve it, the agents they offer, and which host runs which session. */
export class WorkspaceState extends DurableObject<Env> {
  /** Connections that wait for an agent's first word. They are calls in progress: nothing to restore. */
  #waiting: (() => void)[] = [];

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  // ---- for sessions and connections -------------------------------------------------------------------

  /** Puts a session on a host; with none connected it waits for one. `refused` says why it cannot be placed. */
  place(sessionId: string, agent: string): { refused: string | null; policy: PermissionPolicy } {
    this.#migrate();
    const policy = this.#policy();
    const refused = whyNot(this.#agents(), agent);
    if (refused !== undefined) return { refused, policy };
    this.#sql.exec(
      "INSERT OR REPLACE INTO placement (session, agent, host, instance) VALUES (?, ?, NULL, NULL)",
      sessionId,
      agent,
    );
    const host = this.#hosts().find((h) => h.agents.includes(agent));
    if (host) this.#assign(host, sessionId, agent);
    return { refused: null, policy };
  }

  /** Changes the policy, for running sessions as well; one out of reach has it when its agent is next started. */
  async setPolicy(policy: PermissionPolicy): Promise<void> {
    this.#migrate();
    this.#sql.exec(
      "INSERT OR REPLACE INTO setting (name, value) VALUES ('policy', ?)",
      JSON.stringify(policy),
    );
    const placed = this.#sql.exec<{ session: string }>("SELECT session FROM placement").toArray();
    for (let at = 0; at < placed.length; at += PUSHES) {
      const told = await Promise.allSettled(
        placed
          .slice(at, at + PUSHES)
          .map(({ session }) => this.env.ACP_SESSION_DO.getByName(session).policy(policy)),
      );
      const failed = told.filter(({ status }) => status === "rejected").length;
      if (failed > 0) console.error("policy not delivered", { sessions: failed });
    }
  }

  #policy(): PermissionPolicy {
    const [row] = this.#sql
      .exec<{ value: string }>("SELECT value FROM setting WHERE name = 'policy'")
      .toArray();
    return row ? (JSON.parse(row.value) as PermissionPolicy) : ASK_ALWAYS;
  }

  /** The agent a connection asked for, or the default; waits a while for one that has not said yet what it can do. */
  async choose(wanted: string | null): Promise<AgentChoice> {
    this.#migrate();
    const deadline = Date.now() + LIMITS.agentStartMs;
    for (let warmed = false; ; ) {
      const agents = this.#agents();
      const agent = agents.find((a) => (wanted === null ? a.default : a.id === wanted));
      const refused = whyNot(agents, agent?.id ?? wanted ?? "");
      if (refused !== undefined && (agent || wanted !== null))
        return { refused, agents: availableIds(agents) };
      if (!agent) return { agent: wanted ?? "", initialize: null };
      const host = this.#hosts().find((h) => h.agents.includes(agent.id));
      // Hosts start their default agent unasked.
      if (host && !agent.default && !warmed) send(host.ws, { t: "warm", agent: agent.id });
      warmed = true;
      if (agent.initialize || agent.error || !host || Date.now() >= deadline)
        return { agent: agent.id, initialize: agent.initialize };
      await this.#news(deadline);
    }
  }

  /** Resolves when a host has something to say, or when it is too late. */
  #news(deadline: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, deadline - Date.now());
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  view(id: string): WorkspaceView {
    this.#migrate();
    return {
      id,
      hosts: this.#hosts().map(({ name, root, connectedAt }) => ({
        name,
        root,
        connectedAt: new Date(connectedAt).toISOString(),
      })),
      agents: this.#agents().map(({ initialize, ...agent }) => ({ ...agent, ready: initialize !== null })),
      policy: this.#policy(),
    };
  }

  // ---- secrets: for hosts only ------------------------------------------------------------------------

  secrets(): SecretInfo[] {
    return this.#secrets().list();
  }

  async putSecret(name: string, value: string): Promise<"put" | "no key" | "too many"> {
    const store = this.#secrets();
    if (store.list().length >= SECRETS_MAX && !store.list().some((one) => one.name === name))
      return "too many";
    if (!(await store.put(name, value))) return "no key";
    await this.#tellSecrets();
    return "put";
  }

  async deleteSecret(name: string): Promise<boolean> {
    const removed = this.#secrets().remove(name);
    if (removed) await this.#tellSecrets();
    return removed;
  }

  async #tellSecrets(): Promise<void> {
    const values = await this.#openSecrets();
    for (const { ws } of this.#hosts()) send(ws, { t: "secrets", values });
  }

  /** Nothing else happens meanwhile: neither does a host's next word overtake its hello, nor an older list a newer one. */
  #openSecrets(): Promise<Record<string, string>> {
    return this.ctx.blockConcurrencyWhile(() => this.#secrets().open());
  }

  #secrets(): SecretStore {
    return new SecretStore(this.#sql, this.env.SECRETS_KEY);
  }

  // ---- hosts ------------------------------------------------------------------------------------------

  /** A host's control socket; the Worker has checked its token. */
  override async fetch(): Promise<Response> {
    this.#migrate();
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(ws: WebSocket, text: string | ArrayBuffer): Promise<void> {
    const message = typeof text === "string" ? parseControl(text) : undefined;
    if (!message) return ws.close(4400, "unknown message");
    switch (message.t) {
      case "hello":
        await this.#hello(ws, message);
        break;
      case "agent":
        this.#sql.exec(
          "UPDATE agent SET initialize = ?, error = NULL WHERE id = ?",
          JSON.stringify(message.initialize),
          message.id,
        );
        break;
      case "agent_failed":
        this.#sql.exec("UPDATE agent SET error = ? WHERE id = ?", message.error, message.id);
        break;
      case "offers":
        this.#offers(ws, message.agents);
        break;
    }
    this.#wake();
  }

  override webSocketClose(ws: WebSocket, code: number, reason: string): void {
    answerClose(ws, code, reason);
    // Its sessions stay where they are: the host comes back, with the same processes or with news of them.
    ws.serializeAttachment(null);
    this.#wake();
  }

  async #hello(ws: WebSocket, hello: Hello): Promise<void> {
    if (hello.version !== LINK_VERSION) {
      send(ws, {
        t: "refused",
        reason: `This gateway speaks link version ${LINK_VERSION}, the host ${hello.version}`,
      });
      return ws.close(4426, "link version");
    }
    const secrets = await this.#openSecrets();
    for (const other of this.#hosts())
      if (other.name === hello.name && other.ws !== ws) other.ws.close(4409, "superseded");
    // Nobody can say what it lacks before it has the secrets; it tells once it has them.
    const hasSecrets = Object.keys(secrets).length > 0;
    const offers = hasSecrets ? hello.agents.map((offer) => ({ ...offer, available: true })) : hello.agents;
    const host = {
      name: hello.name,
      instance: hello.instance,
      root: hello.root,
      ...split(offers),
      connectedAt: Date.now(),
    };
    ws.serializeAttachment(host satisfies HostRecord);
    this.#keepOffers(offers);
    send(ws, { t: "welcome" });
    if (hasSecrets || hello.secrets) send(ws, { t: "secrets", values: secrets });
    await this.#settlePlacements({ ...host, ws }, new Set(hello.runs.map((run) => run.sessionId)));
  }

  /** What a host can start has changed. Sessions that waited for such an agent get their place. */
  #offers(ws: WebSocket, offers: Offer[]): void {
    const record = ws.deserializeAttachment() as HostRecord | null;
    if (!record) return;
    const host = { ...record, ...split(offers) };
    ws.serializeAttachment(host satisfies HostRecord);
    this.#keepOffers(offers);
    const waiting = this.#sql.exec<Placement>("SELECT * FROM placement WHERE host IS NULL").toArray();
    for (const { session, agent } of waiting)
      if (host.agents.includes(agent)) this.#assign({ ...host, ws }, session, agent);
  }

  #keepOffers(offers: Offer[]): void {
    for (const offer of offers) {
      this.#sql.exec(
        `INSERT INTO agent (id, name, is_default) VALUES (?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, is_default = excluded.is_default, error = NULL`,
        offer.id,
        offer.name,
        offer.default ? 1 : 0,
      );
      this.#sql.exec(
        "INSERT OR REPLACE INTO offer (agent, offer) VALUES (?, ?)",
        offer.id,
        JSON.stringify(offer),
      );
    }
    const offered = new Set(this.#hosts().flatMap((one) => [...one.agents, ...one.unavailable]));
    for (const { id } of this.#agents()) {
      if (offered.has(id)) continue;
      this.#sql.exec("DELETE FROM agent WHERE id = ?", id);
      this.#sql.exec("DELETE FROM offer WHERE agent = ?", id);
    }
  }

  /** Sessions without a place get one; those whose process died with an earlier instance of this host hear of it. */
  async #settlePlacements(host: Host, running: ReadonlySet<string>): Promise<void> {
    const rows = this.#sql
      .exec<Placement>("SELECT * FROM placement WHERE host IS NULL OR host = ?", host.name)
      .toArray();
    const lost: string[] = [];
    for (const { session, agent, host: placed, instance } of rows) {
      if (placed === null) {
        if (host.agents.includes(agent)) this.#assign(host, session, agent);
      } else if (instance !== host.instance && !running.has(session)) {
        this.#sql.exec("DELETE FROM placement WHERE session = ?", session);
        lost.push(session);
      }
    }
    await Promise.all(lost.map((session) => this.env.ACP_SESSION_DO.getByName(session).lost(host.name)));
  }

  #assign(host: Host, sessionId: string, agent: string): void {
    this.#sql.exec(
      "UPDATE placement SET host = ?, instance = ? WHERE session = ?",
      host.name,
      host.instance,
      sessionId,
    );
    send(host.ws, { t: "open", sessionId, agent });
  }

  /** Control sockets that have said hello; what they said is on the socket, so it goes with it. */
  #hosts(): Host[] {
    return this.ctx.getWebSockets().flatMap((ws) => {
      const record = ws.deserializeAttachment() as HostRecord | null;
      return record && ws.readyState === WebSocket.OPEN ? [{ ...record, ws }] : [];
    });
  }

  /** An agent is available if one of the hosts can start it, or could when there last was one. */
  #agents(): KnownAgent[] {
    const hosts = this.#hosts();
    return this.#sql
      .exec<AgentRow>(
        `SELECT id, name, is_default AS "default", initialize, error, offer
         FROM agent LEFT JOIN offer ON offer.agent = agent.id ORDER BY is_default DESC, id`,
      )
      .toArray()
      .map(({ offer: text, ...agent }) => {
        const offer = JSON.parse(text ?? "{}") as Partial<AgentOffer>;
        const available =
          hosts.length === 0 ? offer.available !== false : hosts.some((h) => h.agents.includes(agent.id));
        return {
          ...agent,
          default: agent.default === 1,
          available,
          reason: available ? null : (offer.reason ?? null),
          description: offer.description ?? null,
          version: offer.version ?? null,
        };
      });
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  get #sql(): SqlStorage {
    return this.ctx.storage.sql;
  }

  #migrate(): void {
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS agent (id TEXT PRIMARY KEY, name TEXT NOT NULL, is_default INTEGER NOT NULL, initialize TEXT, error TEXT);
      CREATE TABLE IF NOT EXISTS placement (session TEXT PRIMARY KEY, agent TEXT NOT NULL, host TEXT, instance TEXT);
      CREATE TABLE IF NOT EXISTS offer (agent TEXT PRIMARY KEY, offer TEXT NOT NULL);
      CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    `);
  }
}

/** Secrets of one workspace: all of them travel in one message. */
const SECRETS_MAX = 100;

/** Sessions that hear of a new policy at the same time. */
const PUSHES = 50;

type AgentRow = {
  id: string;
  name: string;
  default: number;
  initialize: string | null;
  error: string | null;
  /** What a host said of it last, an AgentOffer as JSON. */
  offer: string | null;
};
type KnownAgent = Omit<AgentInfo, "ready"> & { initialize: string | null };
type Placement = { session: string; agent: string; host: string | null; instance: string | null };

/** What the object remembers of a control socket. */
type HostRecord = {
  name: string;
  instance: string;
  root: string;
  /** Ids of the agents it can start, and of those it cannot. */
  agents: string[];
  unavailable: string[];
  connectedAt: number;
};
type Host = HostRecord & { ws: WebSocket };

const OFFERS = z
  .array(
    z.object({
      id: z.string().max(100),
      name: z.string().max(200),
      default: z.boolean(),
      available: z.boolean().optional(),
      reason: z.string().max(1000).optional(),
      description: z.string().max(500).optional(),
      version: z.string().max(100).optional(),
    }),
  )
  .max(100);
type Offer = z.infer<typeof OFFERS>[number];

const HELLO = z.object({
  t: z.literal("hello"),
  version: z.number(),
  name: z.string().min(1).max(200),
  instance: z.string().min(1).max(100),
  root: z.string(),
  agents: OFFERS,
  runs: z.array(z.object({ sessionId: z.string(), run: z.string() })),
  secrets: z.boolean().optional(),
});
type Hello = z.infer<typeof HELLO>;
const CONTROL = z.discriminatedUnion("t", [
  HELLO,
  z.object({ t: z.literal("agent"), id: z.string(), initialize: z.record(z.string(), z.unknown()) }),
  z.object({ t: z.literal("agent_failed"), id: z.string(), error: z.string() }),
  z.object({ t: z.literal("offers"), agents: OFFERS }),
]);

function parseControl(text: string): z.infer<typeof CONTROL> | undefined {
  try {
    return CONTROL.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function split(offers: Offer[]): Pick<HostRecord, "agents" | "unavailable"> {
  const ids = (available: boolean) =>
    offers.filter((offer) => (offer.available !== false) === available).map(({ id }) => id);
  return { agents: ids(true), unavailable: ids(false) };
}

function send(ws: WebSocket, message: GatewayControl): void {
  ws.send(JSON.stringify(message));
}
