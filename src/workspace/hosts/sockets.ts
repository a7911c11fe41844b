import { readAttachment, writeAttachment } from "../../durable/attachments.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import type { GatewayControl, HostLoad } from "../../protocol/host-wire.ts";

/** A control socket whose host has said hello. */
export type HostSocket = { ws: WebSocket; host: string; instance: string };

/** The signs of life of a connected host: its last load, and the time of its last report or heartbeat. */
export type HostSigns = { load: HostLoad | null; lastSeenAt: number };

/** The control sockets of hosts. The attachment of a socket names the host that the socket speaks for. */
export class HostSockets {
  readonly #ctx: DurableObjectState;
  readonly #probeMs: number;
  /** Probes without an answer yet. They are calls in progress, so nothing is restored after an eviction. */
  readonly #probes = new Map<WebSocket, (isAlive: boolean) => void>();

  constructor(ctx: DurableObjectState, probeMs: number) {
    this.#ctx = ctx;
    this.#probeMs = probeMs;
  }

  accept(tags: readonly string[]): WebSocket {
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [TAG, ...tags]);
    writeAttachment(server, { kind: "host-control", host: null });
    return client;
  }

  /** The open sockets, also of hosts that have not said hello. */
  get count(): number {
    return this.#ctx.getWebSockets(TAG).filter(({ readyState }) => readyState === WebSocket.OPEN).length;
  }

  all(): HostSocket[] {
    return this.#ctx.getWebSockets(TAG).flatMap((ws) => {
      if (ws.readyState !== WebSocket.OPEN) return [];
      const host = readAttachment(ws, "host-control")?.host;
      return host ? [{ ws, host: host.name, instance: host.instance }] : [];
    });
  }

  of(name: string): HostSocket | undefined {
    return this.all().find(({ host }) => host === name);
  }

  /** Keeps a report of load with the socket. */
  setLoad(ws: WebSocket, load: HostLoad, at: number): void {
    const attachment = readAttachment(ws, "host-control");
    if (attachment) writeAttachment(ws, { ...attachment, load, reportedAt: at });
  }

  /** The signs of life of all connected hosts, by name. */
  signs(): Map<string, HostSigns> {
    return new Map(this.all().map(({ ws, host }) => [host, this.signsOf(ws)]));
  }

  /** The runtime answers heartbeats, and notes when, without waking the object. */
  signsOf(ws: WebSocket): HostSigns {
    const { load = null, reportedAt = 0 } = readAttachment(ws, "host-control") ?? {};
    const pinged = this.#ctx.getWebSocketAutoResponseTimestamp(ws)?.getTime() ?? 0;
    return { load, lastSeenAt: Math.max(pinged, reportedAt) };
  }

  /** The host that a socket speaks for. */
  hostOf(ws: WebSocket): string | undefined {
    return readAttachment(ws, "host-control")?.host?.name;
  }

  /** From now on the socket speaks for no host. Returns the host that it spoke for. */
  release(ws: WebSocket): string | undefined {
    const name = this.hostOf(ws);
    writeAttachment(ws, { kind: "host-control", host: null });
    return name;
  }

  /**
   * Makes a socket speak for a host. Two hosts of one name would share each other's sessions: a host that reconnects
   * replaces its own old socket, another host gets the name only if the current holder does not answer a probe.
   * `replace` is called for each socket that loses the name. False: the name is taken.
   */
  async claim(
    ws: WebSocket,
    { name, instance }: { name: string; instance: string },
    replace: (ws: WebSocket, reason: string) => void,
  ): Promise<boolean> {
    for (;;) {
      const holder = this.of(name);
      if (!holder || holder.ws === ws) {
        if (ws.readyState === WebSocket.OPEN)
          writeAttachment(ws, { kind: "host-control", host: { name, instance } });
        return true;
      }
      const isReconnect = holder.instance === instance;
      if (!isReconnect && (await this.isAlive(holder.ws))) return false;
      const reason = isReconnect ? "replaced" : "superseded";
      replace(holder.ws, reason);
      holder.ws.close(isReconnect ? CloseCode.abandoned : CloseCode.superseded, reason);
    }
  }

  /** Probes a host. Concurrent probes of one socket share their answer. */
  isAlive(ws: WebSocket): Promise<boolean> {
    return new Promise((resolve) => {
      const earlier = this.#probes.get(ws);
      const settle = (isAlive: boolean) => {
        clearTimeout(timer);
        this.#probes.delete(ws);
        earlier?.(isAlive);
        resolve(isAlive);
      };
      // The object cannot hibernate meanwhile: the message or alarm that asks is still being handled.
      const timer = setTimeout(() => settle(false), this.#probeMs);
      this.#probes.set(ws, settle);
      sendControl(ws, { t: "probe" });
    });
  }

  /** A host has answered a probe, or its socket is closed. */
  settleProbe(ws: WebSocket, isAlive: boolean): void {
    this.#probes.get(ws)?.(isAlive);
  }
}

export function sendControl(ws: WebSocket, message: GatewayControl): void {
  ws.send(JSON.stringify(message));
}

const TAG = "host";
