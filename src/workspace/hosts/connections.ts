import type { Caller } from "../../protocol/caller.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { LINK_VERSION, OLDEST_LINK_VERSION } from "../../protocol/host-wire.ts";
import type { Limits } from "../../protocol/limits.ts";
import { accepted, type Result, refused } from "../../protocol/refusal.ts";
import type { HostTokenName } from "../../protocol/subject-rpc.ts";
import { type Act, type AuditKind, audit } from "../../tenant/client/audit.ts";
import type { AgentOffers } from "../agents/offers.ts";
import type { WorkspaceChange } from "../changes.ts";
import type { OnDemandHost } from "../container/on-demand-host.ts";
import type { Placements } from "../placement/placements.ts";
import type { WorkspaceStore } from "../store.ts";
import { type Hello, type HostReport, parseControl } from "./control-messages.ts";
import type { HostDepartures } from "./departures.ts";
import { hostTokenOf, unusualJoin } from "./host-token.ts";
import type { HostRegistry } from "./registry.ts";
import { type HostSockets, sendControl } from "./sockets.ts";
import { HostTokens, type HostTokenTimers } from "./tokens.ts";

type Parts = {
  ctx: DurableObjectState;
  env: Env;
  limits: Limits;
  timers: HostTokenTimers;
  store: WorkspaceStore;
  hosts: HostRegistry;
  offers: AgentOffers;
  sockets: HostSockets;
  departures: HostDepartures;
  placements: Placements;
  onDemand: OnDemandHost;
  secrets: () => Promise<Record<string, string>>;
  after: (change: WorkspaceChange) => Promise<void>;
  /** Runs the effects of a change without waiting for them. */
  runAfter: (change: WorkspaceChange) => void;
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
    const end = (ws: WebSocket, reason: string) => this.dismiss(ws, reason);
    this.#tokens = new HostTokens(ctx, env, limits, timers, end);
  }

  async accept(caller: Caller): Promise<Result<WebSocket>> {
    const checked = await this.#tokens.check(caller);
    if (!checked.ok) return checked;
    const { limits, sockets } = this.#parts;
    const max = 2 * limits.hostsPerWorkspace;
    if (sockets.count >= max)
      return refused({ reason: "unavailable", message: `A workspace has at most ${max} sockets of hosts` });
    this.#parts.store.create({ tenant: caller.tenant, workspace: caller.workspaces[0] as string });
    return accepted(sockets.accept(this.#tokens.admit(caller)));
  }

  /** Closes the sockets of a revoked token. Returns how many there were. */
  endToken(token: HostTokenName): number {
    const sockets = this.#tokens.end(token);
    for (const ws of sockets) this.dismiss(ws, "token revoked");
    return sockets.length;
  }

  async receive(ws: WebSocket, text: string | ArrayBuffer): Promise<void> {
    const message = typeof text === "string" ? parseControl(text) : undefined;
    if (!message) return ws.close(CloseCode.badMessage, "unknown message");
    switch (message.t) {
      case "version":
        return this.#refuseVersion(ws, message.version);
      case "renew":
        return this.#renew(ws, message.token);
      case "hello": {
        if (ws.readyState !== WebSocket.OPEN) return;
        if (this.#hellos.has(ws) || this.#parts.sockets.hostOf(ws) !== undefined)
          return this.#refuseSecondHello(ws);
        const hello = this.#hello(ws, message);
        this.#hellos.set(ws, hello);
        return hello.finally(() => this.#hellos.delete(ws));
      }
      default:
        return this.#report(ws, message);
    }
  }

  /** A hello is the first message of a socket, and has a cost. */
  #refuseSecondHello(ws: WebSocket): void {
    const reason = "a second hello";
    ws.close(CloseCode.badMessage, reason);
    this.closed(ws, CloseCode.badMessage, reason);
  }

  async #renew(ws: WebSocket, token: string): Promise<void> {
    const { hosts, sockets } = this.#parts;
    const name = sockets.hostOf(ws);
    const answer = await this.#tokens.renew(ws, token, name);
    const caller = this.#tokens.callerOf(ws);
    if (answer.t === "renewed" && name !== undefined && caller) hosts.setToken(name, hostTokenOf(caller));
    sendControl(ws, answer);
  }

  async #report(ws: WebSocket, message: HostReport): Promise<void> {
    const { hosts, offers, sockets, departures, after } = this.#parts;
    // While a hello waits for the probe of another host, this host already sends reports.
    if (message.t !== "alive") await this.#hellos.get(ws);
    const name = sockets.hostOf(ws);
    if (name === undefined) return;
    switch (message.t) {
      case "agent":
        this.#setInitialized(name, message.id, JSON.stringify(message.initialize));
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
        sockets.setLoad(ws, load, Date.now());
        return after("host-load");
      }
      case "draining":
        departures.markDraining(name);
        return after("host-report");
      case "alive":
        return sockets.settleProbe(ws, true);
    }
  }

  /** Clients learn at once why an agent cannot be used, and do not wait for an answer that cannot be kept. */
  #setInitialized(host: string, agent: string, initialize: string): void {
    const { offers, limits } = this.#parts;
    const { initializeChars: max } = limits;
    if (initialize.length <= max) offers.setInitialized(host, agent, initialize);
    else offers.setFailed(host, agent, `the agent's answer to initialize exceeds ${max} characters`);
  }

  async #hello(ws: WebSocket, hello: Hello): Promise<void> {
    const { hosts, limits, offers, sockets, departures, onDemand, placements, secrets, after } = this.#parts;
    const { name, instance, runs, software, agents, draining, root, capacity, maxAgents, isolation } = hello;
    const caller = this.#tokens.callerOf(ws);
    if (!caller) return;
    if (caller.host !== undefined && caller.host !== name) return this.#refuseToken(ws, caller.host, name);
    if (sockets.all().filter(({ host }) => host !== name).length >= limits.hostsPerWorkspace)
      return this.#refuseFull(ws, name, limits.hostsPerWorkspace);
    if (!(await sockets.claim(ws, hello, (old, reason) => this.#release(old, reason))))
      return refuseName(ws, name);
    // The socket may have closed while the holder of the name was probed.
    if (sockets.hostOf(ws) === undefined) return;
    const unusual = unusualJoin(caller, {
      before: hosts.get(name)?.token,
      hasHosts: hosts.all().length > 0,
      isIssued: onDemand.hasIssued(caller.jti),
      issuedSubject: onDemand.issuedSubject,
    });
    hosts.put({
      name,
      instance,
      root,
      capacity,
      about: {
        ...software,
        linkVersion: hello.version,
        ...(maxAgents !== undefined && { maxAgents }),
        ...(isolation !== undefined && { isolation }),
      },
      state: draining ? "draining" : "connected",
      connectedAt: Date.now(),
      token: hostTokenOf(caller),
    });
    const values = await secrets();
    // A host can say which agents lack a secret only after it has got the secrets: then it sends its offers again.
    const hasSecrets = Object.keys(values).length > 0;
    offers.replace(name, hasSecrets ? agents.map((offer) => ({ ...offer, available: true })) : agents);
    onDemand.hostConnected(name);
    hosts.prune(Date.now(), placements, offers);
    sendControl(ws, { t: "welcome" });
    if (hasSecrets || hello.secrets) sendControl(ws, { t: "secrets", values });
    this.#auditJoin(ws, name, caller, unusual);
    this.#reconcile(ws, name, instance, new Set(runs.map(({ sessionId }) => sessionId)));
    if (draining) departures.requestDrain(name);
    await after("hosts");
  }

  /** Compares the sessions that are placed on the host with those that it runs. */
  #reconcile(ws: WebSocket, name: string, instance: string, running: ReadonlySet<string>): void {
    const { placements, departures } = this.#parts;
    for (const { session, agent, processRequest, io, instance: asked } of placements.on(name)) {
      if (running.has(session)) continue;
      // The order may have been lost with the last socket; a host that has got it ignores the second one.
      if (asked === instance) sendControl(ws, { t: "open", sessionId: session, agent, processRequest, io });
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
    const { limits, hosts, sockets } = this.#parts;
    await Promise.all(
      sockets.all().map(async ({ ws, host }) => {
        const lastSeenAt = hosts.get(host)?.lastSeenAt ?? sockets.signsOf(ws).lastSeenAt;
        if (lastSeenAt + limits.hostSilentMs > Date.now()) return;
        if ((await sockets.isAlive(ws)) || sockets.hostOf(ws) === undefined) return;
        this.#release(ws, "silent");
        ws.close(CloseCode.abandoned, "silent");
        this.#markGone(host, lastSeenAt, { hasLeft: false });
      }),
    );
  }

  checkTokens(): void {
    this.#tokens.checkExpiry(Date.now());
  }

  #markGone(name: string, lastSeenAt: number, how: { hasLeft: boolean }): void {
    this.#parts.departures.markGone(name, lastSeenAt, how);
    this.#parts.runAfter("host-gone");
  }

  /** From now on the socket speaks for no host. Returns the host that it spoke for. */
  #release(ws: WebSocket, reason: string): string | undefined {
    const name = this.#parts.sockets.release(ws);
    if (name !== undefined) this.#audit(ws, "host.left", { name, reason });
    return name;
  }

  /** An unusual host may be an intruder with a stolen token: the audit and the log say so. */
  #auditJoin(
    ws: WebSocket,
    name: string,
    { tenant, workspaces, subject, jti }: Caller,
    unusual?: string,
  ): void {
    const note = unusual === undefined ? {} : { level: "warning", unusual };
    this.#audit(ws, "host.joined", { name, jti: jti ?? null, ...note });
    if (unusual !== undefined)
      console.warn("unusual host", { tenant, workspace: workspaces[0], name, subject, jti, unusual });
  }

  #refuseToken(ws: WebSocket, host: string, name: string): void {
    this.#audit(ws, "host.refused", { level: "warning", name, unusual: `its token is for the host ${host}` });
    const reason = `The token is for a host called "${host}", not "${name}"`;
    sendControl(ws, { t: "refused", reason, why: "token" });
    ws.close(CloseCode.unauthorized, "token for another host");
  }

  /** The host tries again later, and finds a place as soon as another host has gone. */
  #refuseFull(ws: WebSocket, name: string, max: number): void {
    this.#audit(ws, "host.refused", { name, reason: `${max} hosts are connected` });
    sendControl(ws, { t: "refused", reason: `A workspace has at most ${max} connected hosts`, why: "full" });
    ws.close(CloseCode.tryAgainLater, "too many hosts");
  }

  #refuseVersion(ws: WebSocket, version: number): void {
    this.#audit(ws, "host.refused", { linkVersion: version });
    const range = `${OLDEST_LINK_VERSION} to ${LINK_VERSION}`;
    const reason = `This gateway speaks link versions ${range}, the host ${version}`;
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
