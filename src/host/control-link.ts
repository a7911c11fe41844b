import { z } from "zod";
import type { GatewayControl, HostControl } from "../protocol/link.ts";
import { type Gateway, GatewaySocket } from "./gateway-socket.ts";

const gatewayControl: z.ZodType<GatewayControl> = z.discriminatedUnion("t", [
  z.object({ t: z.literal("welcome") }),
  z.object({ t: z.literal("open"), sessionId: z.string().min(1), agent: z.string() }),
  z.object({ t: z.literal("refused"), reason: z.string() }),
  z.object({ t: z.literal("expiring"), expiresAt: z.string() }),
  z.object({ t: z.literal("renewed"), expiresAt: z.string() }),
  z.object({ t: z.literal("not_renewed"), reason: z.string() }),
]);

export type ControlHandlers = {
  /** What to say on a new socket, hello first. */
  greeting(): HostControl[];
  open(sessionId: string, agent: string): void;
  /** The gateway does not want this host; asking again would not change its mind. */
  refused(reason: string): void;
};

/** The one socket of a host to its workspace: says what it offers, hears which sessions to serve. */
export class ControlLink {
  readonly #gateway: Gateway;
  readonly #handlers: ControlHandlers;
  readonly #socket: GatewaySocket;

  constructor(gateway: Gateway, workspace: string, handlers: ControlHandlers) {
    this.#gateway = gateway;
    this.#handlers = handlers;
    this.#socket = new GatewaySocket(gateway, `/host/control?workspace=${encodeURIComponent(workspace)}`, {
      opened: () => {
        for (const message of handlers.greeting()) this.send(message);
      },
      message: (text) => this.#received(text),
      lost: ({ status }) => {
        if (status !== 401 && status !== 403) return "retry";
        handlers.refused(`HTTP ${status}: is the host token right?`);
        return "give up";
      },
    });
  }

  /** Lost if the socket is down: the next greeting repeats what still matters. */
  send(message: HostControl): void {
    this.#socket.send(JSON.stringify(message));
  }

  close(): void {
    this.#socket.close();
  }

  #received(text: string): void {
    const parsed = gatewayControl.safeParse(parseJson(text));
    if (!parsed.success) {
      this.#gateway.log(`control message not understood: ${text.slice(0, 200)}`);
      return;
    }
    const message = parsed.data;
    switch (message.t) {
      case "welcome":
        this.#gateway.log("connected");
        return;
      case "open":
        this.#handlers.open(message.sessionId, message.agent);
        return;
      case "expiring":
        return this.send({ t: "renew", token: this.#gateway.token });
      case "renewed":
        return;
      case "not_renewed":
        this.#gateway.log(`token not renewed: ${message.reason}`);
        return;
      case "refused":
        this.#socket.close();
        this.#handlers.refused(message.reason);
        return;
    }
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
