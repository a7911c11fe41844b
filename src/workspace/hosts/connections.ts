import type { Caller } from "../../protocol/caller.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { type HostSettings, LINK_VERSION } from "../../protocol/host-wire.ts";
import type { Limits } from "../../protocol/limits.ts";
import { type Act, type AuditKind, audit } from "../../tenant/client/audit.ts";
import type { AgentOffers } from "../agents/offers.ts";
import type { WorkspaceChange } from "../changes.ts";
import type { OnDemandHost } from "../container/on-demand-host.ts";
import type { Placements } from "../placement/placements.ts";
import { type Hello, type HostReport, parseControl } from "./control-messages.ts";
import type { HostDepartures } from "./departures.ts";
import type { HostRegistry } from "./registry.ts";
import { type HostSockets, sendControl } from "./sockets.ts";
import { HostTokens, type HostTokenTimers } from "./tokens.ts";

type Parts = {
  ctx: DurableObjectState;
  env: Env;
  limits: Limits;
  timers: HostTokenTimers;
  hosts: HostRegistry;
  offers: AgentOffers;
  sockets: HostSockets;
  departures: HostDepartures;
  placements: Placements;
  onDemand: OnDemandHost;
  settings: () => HostSettings;
  secrets: () => Promise<Record<string, string>>;
  after: (change: WorkspaceChange) => Promise<void>;
};

/** Serves the control sockets of hosts: their hello, their reports, their tokens and their end. */
export class HostConnections {
  readonly #parts: Parts;
  readonly #tokens: HostTokens;
  /** Hellos that are being handled. They are calls in progress, so nothing is restored after an eviction. */
  readonly #hellos = new Map<WebSocket, Promise<void>>();

  constructor(parts: Parts) {
    this.#parts = parts;
    const { ctx, env, limits, timers } = parts;
    this.#tokens = new HostTokens(ctx, env, limits, timers, (ws, reason) => this.dismiss(ws, reason));
  }

  accept(caller: Caller): Response {
    const webSocket = this.#parts.sockets.accept(this.#tokens.admit(caller));
    return new Response(null, { status: 101, webSocket });
  }

  async receive(ws: WebSocket, text: string | ArrayBuffer): Promise<void> {
    const message = typeof text === "string" ? parseControl(text) : undefined;
    if (!message) return ws.close(CloseCode.badMessage, "unknown message");
    switch (message.t) {
      case "version":
        return this.#refuseVersion(ws, message.version);
      case "renew":
        return sendControl(ws, await this.#tokens.renew(ws, message.token));
      case "hello": {
        const hello = this.#hello(ws, message);
        this.#hellos.set(ws, hello);
        return hello.finally(() => this.#hellos.delete(ws));
      }
      default:
        return this.#report(ws, message);
    }
  }

  async #report(ws: WebSocket, message: HostReport): Promise<void> {
    const { hosts, offers, sockets, departures, after } = this.#parts;
    // While a hello waits for the probe of another host, this host already sends reports.
    if (message.t !== "alive") await this.#hellos.get(ws);
    const name = sockets.hostOf(ws);
    if (name === undefined) return;
    switch (message.t) {
      case "agent":
        offers.setInitialized(name, message.id, JSON.stringify(message.initialize));
        return after("host-report");
      case "agent_failed":
        offers.setFailed(name, message.id, message.error);
        return after("host-report");
      case "offers":
        offers.replace(name, message.agents);
        return after("hosts");
      case "workspace":
        hosts.setGit(name, message.git, Date.now());
        return after("host-report");
      case "load": {
        const { t: _, ...load } = message;
        hosts.setLoad(name, load, Date.now());
        return after("host-load");
      }
      case "draining":
        departures.markDraining(name);
        return after("host-report");
      case "alive":
        return sockets.settleProbe(ws, true);
    }
  }

  async #hello(ws: WebSocket, hello: Hello): Promise<void> {
    const { hosts, offers, sockets, departures, onDemand, settings, secrets, after } = this.#parts;
    const { name, instance, runs, software, agents, draining, root, capacity, maxAgents } = hello;
    if (!(await sockets.claim(ws, hello, (old, reason) => this.#release(old, reason))))
      return refuseName(ws, name);
    // The socket may have closed while the holder of the name was probed.
    if (sockets.hostOf(ws) === undefined) return;
    hosts.put({
      name,
      instance,
      root,
      capacity,
      about: { ...software, linkVersion: hello.version, ...(maxAgents !== undefined && { maxAgents }) },
      state: draining ? "draining" : "connected",
      connectedAt: Date.now(),
    });
    const values = await secrets();
    // A host can say which agents lack a secret only after it has got the secrets: then it sends its offers again.
    const hasSecrets = Object.keys(values).length > 0;
    offers.replace(name, hasSecrets ? agents.map((offer) => ({ ...offer, available: true })) : agents);
    onDemand.hostConnected(name);
    hosts.prune(Date.now());
    sendControl(ws, { t: "welcome", ...settings() });
    if (hasSecrets || hello.secrets) sendControl(ws, { t: "secrets", values });
    this.#audit(ws, "host.joined", { name });
    this.#reconcile(ws, name, instance, new Set(runs.map(({ sessionId }) => sessionId)));
    if (draining) departures.requestDrain(name);
    await after("hosts");
  }

  /** Compares the sessions that are placed on the host with those that it runs. */
  #reconcile(ws: WebSocket, name: string, instance: string, running: ReadonlySet<string>): void {
    const { placements, departures } = this.#parts;
    for (const { session, agent, processRequest, instance: asked } of placements.on(name)) {
      if (running.has(session)) continue;
      // The order may have been lost with the last socket; a host that has got it ignores the second one.
      if (asked === instance) sendControl(ws, { t: "open", sessionId: session, agent, processRequest });
      else departures.markRestarted(name, { session, processRequest });
    }
  }

  closed(ws: WebSocket, code: number, reason: string): void {
    this.#parts.sockets.settleProbe(ws, false);
    const name = this.#release(ws, reason);
    this.#tokens.remove(ws);
    if (name !== undefined) this.#markGone(name, Date.now(), { hasLeft: code === CloseCode.normal });
  }

  /** Closes a socket whose token expired or was revoked. The host may reconnect with another token and its processes. */
  dismiss(ws: WebSocket, reason: string): void {
    const name = this.#release(ws, reason);
    ws.close(CloseCode.unauthorized, reason);
    if (name !== undefined) this.#markGone(name, Date.now(), { hasLeft: false });
  }

  /** Closes the socket of a host whose process is known to have ended. A host that lives after all dials again. */
  abandon(name: string, reason: string): void {
    const ws = this.#parts.sockets.of(name)?.ws;
    if (!ws) return;
    this.#release(ws, reason);
    ws.close(CloseCode.abandoned, reason);
  }

  /** Marks the hosts as gone whose sockets closed while this object was not running. */
  markVanished(): void {
    const { hosts, sockets } = this.#parts;
    for (const { name } of hosts.present())
      if (!sockets.of(name)) this.#markGone(name, Date.now(), { hasLeft: false });
  }

  /** Probes the hosts from which nothing came for `hostSilentMs`. A host that does not answer is gone. */
  async checkSilent(): Promise<void> {
    const { ctx, limits, hosts, sockets } = this.#parts;
    await Promise.all(
      sockets.all().map(async ({ ws, host }) => {
        const pinged = ctx.getWebSocketAutoResponseTimestamp(ws)?.getTime() ?? 0;
        const lastSeenAt = Math.max(pinged, hosts.get(host)?.lastSeenAt ?? 0);
        if (lastSeenAt + limits.hostSilentMs > Date.now()) return;
        if ((await sockets.isAlive(ws)) || sockets.hostOf(ws) === undefined) return;
        this.#release(ws, "silent");
        ws.close(CloseCode.abandoned, "silent");
        this.#markGone(host, lastSeenAt, { hasLeft: false });
      }),
    );
  }

  checkTokens(): void {
    this.#tokens.check(Date.now());
  }

  #markGone(name: string, lastSeenAt: number, how: { hasLeft: boolean }): void {
    this.#parts.departures.markGone(name, lastSeenAt, how);
    void this.#parts.after("host-gone");
  }

  /** From now on the socket speaks for no host. Returns the host that it spoke for. */
  #release(ws: WebSocket, reason: string): string | undefined {
    const name = this.#parts.sockets.release(ws);
    if (name !== undefined) this.#audit(ws, "host.left", { name, reason });
    return name;
  }

  #refuseVersion(ws: WebSocket, version: number): void {
    this.#audit(ws, "host.refused", { linkVersion: version });
    const reason = `This gateway speaks link version ${LINK_VERSION}, the host ${version}`;
    sendControl(ws, { t: "refused", reason, why: "version" });
    ws.close(CloseCode.linkVersion, "link version");
  }

  #audit(ws: WebSocket, kind: AuditKind, detail: NonNullable<Act["detail"]>): void {
    const caller = this.#tokens.callerOf(ws);
    if (!caller) return;
    const { ctx, env } = this.#parts;
    const [workspace] = caller.workspaces;
    ctx.waitUntil(audit(env, caller.tenant, { kind, subject: caller.subject, workspace, detail }));
  }
}

function refuseName(ws: WebSocket, name: string): void {
  const reason = `Another host with the name "${name}" is connected; it keeps the name until it is gone`;
  sendControl(ws, { t: "refused", reason, why: "name" });
  ws.close(CloseCode.nameInUse, "name in use");
}
