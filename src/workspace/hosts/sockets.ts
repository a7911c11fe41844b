import { CloseCode } from "../../protocol/close-codes.ts";
import type { GatewayControl } from "../../protocol/host-wire.ts";
import { LIMITS } from "../../protocol/limits.ts";

/** The control sockets of hosts, and for whom each speaks: its attachment remembers that. */
export class HostSockets {
  readonly #ctx: DurableObjectState;
  readonly #forget: (ws: WebSocket, reason: string) => void;
  /** Hosts that have been asked whether they are there. They are calls in progress: nothing to restore. */
  readonly #probes = new Map<WebSocket, (alive: boolean) => void>();

  /** `forget`: a socket is to speak for nobody any more. */
  constructor(ctx: DurableObjectState, forget: (ws: WebSocket, reason: string) => void) {
    this.#ctx = ctx;
    this.#forget = forget;
  }

  accept(tags: readonly string[]): WebSocket {
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [HOST, ...tags]);
    return client;
  }

  /** Those that have said hello. */
  all(): { ws: WebSocket; host: string; instance: string }[] {
    return this.#ctx.getWebSockets(HOST).flatMap((ws) => {
      const attachment = attachmentOf(ws);
      return attachment && ws.readyState === WebSocket.OPEN ? [{ ws, ...attachment }] : [];
    });
  }

  of(name: string): { ws: WebSocket; host: string; instance: string } | undefined {
    return this.all().find(({ host }) => host === name);
  }

  /** For whom a socket speaks. */
  hostOf(ws: WebSocket): string | undefined {
    return attachmentOf(ws)?.host;
  }

  /** From now on the socket speaks for nobody. Returns for whom it did. */
  silence(ws: WebSocket): string | undefined {
    const name = this.hostOf(ws);
    ws.serializeAttachment(null);
    return name;
  }

  /**
   * Two hosts of one name would share each other's sessions. A host that comes back takes over its own old
   * socket; another one gets the name only if the one that has it does not answer.
   */
  async claim(ws: WebSocket, { name, instance }: { name: string; instance: string }): Promise<boolean> {
    for (;;) {
      const holder = this.of(name);
      if (!holder || holder.ws === ws) {
        if (ws.readyState === WebSocket.OPEN)
          ws.serializeAttachment({ host: name, instance } satisfies Attachment);
        return true;
      }
      const same = holder.instance === instance;
      if (!same && (await this.isAlive(holder.ws))) return false;
      this.#forget(holder.ws, same ? "replaced" : "superseded");
      holder.ws.close(same ? CloseCode.abandoned : CloseCode.superseded, same ? "replaced" : "superseded");
    }
  }

  isAlive(ws: WebSocket): Promise<boolean> {
    return new Promise((resolve) => {
      const before = this.#probes.get(ws);
      const settle = (alive: boolean) => {
        clearTimeout(timer);
        this.#probes.delete(ws);
        before?.(alive);
        resolve(alive);
      };
      // Not at rest: the message that made us ask is still being dealt with.
      const timer = setTimeout(() => settle(false), LIMITS.probeMs);
      this.#probes.set(ws, settle);
      sendControl(ws, { t: "probe" });
    });
  }

  /** A host has said that it is there, or its socket is gone. */
  probed(ws: WebSocket, alive: boolean): void {
    this.#probes.get(ws)?.(alive);
  }
}

export function sendControl(ws: WebSocket, message: GatewayControl): void {
  ws.send(JSON.stringify(message));
}

/** Tells a host's socket from those of watchers. */
const HOST = "host";

type Attachment = { host: string; instance: string };

function attachmentOf(ws: WebSocket): Attachment | undefined {
  return (ws.deserializeAttachment() as Attachment | null) ?? undefined;
}
