import { DurableObject } from "cloudflare:workers";
import { z } from "zod";
import type { Caller } from "../protocol/caller.ts";
import { answerClose } from "../protocol/close.ts";
import { type GatewayControl, LINK_VERSION } from "../protocol/link.ts";
import { ASK_ALWAYS, type PermissionPolicy } from "../protocol/policy.ts";
import { DEADLINE_SCHEMA, Deadlines } from "../session/deadlines.ts";
import { type Act, type AuditKind, audit } from "../tenant/audit.ts";
import { endSocket } from "../tenant/pass.ts";
import { HOST_PASS_SCHEMA, HostPasses } from "./host-passes.ts";
import { checkRight } from "./rights.ts";

export type AgentInfo = { id: string; name: string; default: boolean; ready: boolean; error: string | null };
export type WorkspaceView = {
  id: string;
  hosts: { name: string; root: string; connectedAt: string }[];
  agents: AgentInfo[];
  policy: PermissionPolicy;
};
/** What a connection needs to answer `initialize`: the agent it gets, and what that agent said, as JSON. */
export type AgentChoice = { agent: string; initialize: string | null } | { unknown: string; known: string[] };

/** One workspace: the hosts that serve it, the agents they offer, and which host runs which session. */
export class WorkspaceState extends DurableObject<Env> {
  /** Connections that wait for an agent's first word. They are calls in progress: nothing to restore. */
  #waiting: (() => void)[] = [];

  readonly #deadlines: Deadlines<"host-token">;
  readonly #passes: HostPasses;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#deadlines = new Deadlines(ctx.storage);
    this.#passes = new HostPasses(ctx, env, this.#deadlines);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  // ---- for sessions and connections -------------------------------------------------------------------

  /** Puts a session on a host; with none connected it waits for one. `refused` says why it cannot be placed. */
  place(sessionId: string, agent: string): { refused: string | null; policy: PermissionPolicy } {
    this.#migrate();
    const policy = this.#policy();
    const known = this.#agents();
    if (known.length > 0 && !known.some((offer) => offer.id === agent)) {
      const ids = known.map((offer) => offer.id).join(", ");
      return { refused: `Unknown agent "${agent}"; this workspace has: ${ids}`, policy };
    }
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
  async setPolicy(caller: Caller, policy: PermissionPolicy): Promise<void> {
    checkRight(this.ctx.id, caller, "workspace:admin");
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

  /** The agent a connection asked for, or the default; waits while a host is still asking that agent. */
  async choose(caller: Caller, wanted: string | null): Promise<AgentChoice> {
    checkRight(this.ctx.id, caller, "session:read", "session:prompt");
    this.#migrate();
    for (;;) {
      const agents = this.#agents();
      const agent = agents.find((a) => (wanted === null ? a.default : a.id === wanted));
      if (!agent && wanted !== null && agents.length > 0)
        return { unknown: wanted, known: agents.map((a) => a.id) };
      if (!agent) return { agent: wanted ?? "", initialize: null };
      // Hosts start their default agent unasked; of any other they learn when it is first used.
      const expected = agent.default && !agent.error && this.#hosts().length > 0;
      if (agent.initialize || !expected) return { agent: agent.id, initialize: agent.initialize };
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  view(caller: Caller, id: string): WorkspaceView {
    checkRight(this.ctx.id, caller, "session:read", "session:prompt");
    this.#migrate();
    return {
      id,
      hosts: this.#hosts().map(({ name, root, connectedAt }) => ({
        name,
        root,
        connectedAt: new Date(connectedAt).toISOString(),
      })),
      agents: this.#agents().map(({ initialize, ...agent }) => ({
        ...agent,
        default: agent.default === 1,
        ready: initialize !== null,
      })),
      policy: this.#policy(),
    };
  }

  // ---- hosts ------------------------------------------------------------------------------------------

  /** A host's control socket. */
  override async fetch(request: Request): Promise<Response> {
    this.#migrate();
    const tags = this.#passes.admit(JSON.parse(request.headers.get("X-Acp-Host") ?? "") as Caller);
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server, tags);
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
      case "renew":
        return send(ws, await this.#passes.renew(ws, message.token));
    }
    this.#wake();
  }

  override webSocketClose(ws: WebSocket, code: number, reason: string): void {
    answerClose(ws, code, reason);
    this.#note(ws, "host.left", { name: hostName(ws), reason });
    this.#passes.left(ws);
    // Its sessions stay where they are: the host comes back, with the same processes or with news of them.
    ws.serializeAttachment(null);
    this.#wake();
  }

  /** The token of a host here was revoked. */
  endSocket(id: string, reason: string): void {
    endSocket(this.ctx, id, reason);
  }

  override async alarm(): Promise<void> {
    for (const _name of this.#deadlines.due(Date.now())) this.#passes.check(Date.now());
  }

  #note(ws: WebSocket, kind: AuditKind, detail: Act["detail"] = {}): void {
    const caller = this.#passes.callerOf(ws);
    if (!caller) return;
    const [workspace] = caller.workspaces;
    this.ctx.waitUntil(audit(this.env, caller.tenant, { kind, subject: caller.subject, workspace, detail }));
  }

  async #hello(ws: WebSocket, hello: Hello): Promise<void> {
    if (hello.version !== LINK_VERSION) {
      this.#note(ws, "host.refused", { name: hello.name, linkVersion: hello.version });
      send(ws, {
        t: "refused",
        reason: `This gateway speaks link version ${LINK_VERSION}, the host ${hello.version}`,
      });
      return ws.close(4426, "link version");
    }
    for (const other of this.#hosts())
      if (other.name === hello.name && other.ws !== ws) other.ws.close(4409, "superseded");
    const host = {
      name: hello.name,
      instance: hello.instance,
      root: hello.root,
      agents: hello.agents.map((a) => a.id),
      connectedAt: Date.now(),
    };
    ws.serializeAttachment(host satisfies HostRecord);
    for (const offer of hello.agents) {
      this.#sql.exec(
        `INSERT INTO agent (id, name, is_default) VALUES (?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, is_default = excluded.is_default, error = NULL`,
        offer.id,
        offer.name,
        offer.default ? 1 : 0,
      );
    }
    const offered = new Set(this.#hosts().flatMap((one) => one.agents));
    for (const { id } of this.#agents()) {
      if (!offered.has(id)) this.#sql.exec("DELETE FROM agent WHERE id = ?", id);
    }
    send(ws, { t: "welcome" });
    this.#note(ws, "host.joined", { name: hello.name });
    await this.#settlePlacements({ ...host, ws }, new Set(hello.runs.map((run) => run.sessionId)));
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

  #agents(): AgentRow[] {
    return this.#sql
      .exec<AgentRow>(
        'SELECT id, name, is_default AS "default", initialize, error FROM agent ORDER BY is_default DESC, id',
      )
      .toArray();
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
      CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
      ${DEADLINE_SCHEMA} ${HOST_PASS_SCHEMA}
    `);
  }
}

/** Sessions that hear of a new policy at the same time. */
const PUSHES = 50;

type AgentRow = {
  id: string;
  name: string;
  default: number;
  initialize: string | null;
  error: string | null;
};
type Placement = { session: string; agent: string; host: string | null; instance: string | null };

/** What the object remembers of a control socket. */
type HostRecord = { name: string; instance: string; root: string; agents: string[]; connectedAt: number };
type Host = HostRecord & { ws: WebSocket };

const HELLO = z.object({
  t: z.literal("hello"),
  version: z.number(),
  name: z.string().min(1).max(200),
  instance: z.string().min(1).max(100),
  root: z.string(),
  agents: z
    .array(z.object({ id: z.string().max(100), name: z.string().max(200), default: z.boolean() }))
    .max(50),
  runs: z.array(z.object({ sessionId: z.string(), run: z.string() })),
});
type Hello = z.infer<typeof HELLO>;
const CONTROL = z.discriminatedUnion("t", [
  HELLO,
  z.object({ t: z.literal("agent"), id: z.string(), initialize: z.record(z.string(), z.unknown()) }),
  z.object({ t: z.literal("agent_failed"), id: z.string(), error: z.string() }),
  z.object({ t: z.literal("renew"), token: z.string() }),
]);

function parseControl(text: string): z.infer<typeof CONTROL> | undefined {
  try {
    return CONTROL.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function hostName(ws: WebSocket): string | null {
  return (ws.deserializeAttachment() as HostRecord | null)?.name ?? null;
}

function send(ws: WebSocket, message: GatewayControl): void {
  ws.send(JSON.stringify(message));
}
