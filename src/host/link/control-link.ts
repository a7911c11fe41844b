import { z } from "zod";
import { type Gateway, GatewaySocket } from "../../node/gateway-socket.ts";
import { reasonOf } from "../../node/log.ts";
import {
  type GatewayControl,
  type HostControl,
  type HostSettings,
  SUPERSEDED,
} from "../../protocol/host-wire.ts";

const gatewayControl: z.ZodType<GatewayControl> = z.discriminatedUnion("t", [
  z.object({ t: z.literal("welcome"), clientIo: z.enum(["host", "client"]).optional() }),
  z.object({ t: z.literal("settings"), clientIo: z.enum(["host", "client"]).optional() }),
  z.object({ t: z.literal("open"), sessionId: z.string().min(1), agent: z.string(), wish: z.number() }),
  z.object({ t: z.literal("warm"), agent: z.string() }),
  z.object({ t: z.literal("secrets"), values: z.record(z.string(), z.string()) }),
  z.object({ t: z.literal("token"), token: z.string().min(1) }),
  z.object({ t: z.literal("probe") }),
  // The first gateways refused for one reason only and did not name it.
  z.object({
    t: z.literal("refused"),
    reason: z.string(),
    why: z.enum(["version", "name"]).default("version"),
  }),
  z.object({ t: z.literal("expiring"), expiresAt: z.string() }),
  z.object({ t: z.literal("renewed"), expiresAt: z.string() }),
  z.object({ t: z.literal("not_renewed"), reason: z.string() }),
]);

/** Why a host is not wanted, for good. */
export type HostRefusal = "token" | "version" | "superseded";

export type ControlHandlers = {
  /** What to say on a new socket, hello first. */
  greeting(): HostControl[];
  open(sessionId: string, agent: string, wish: number): void;
  /** A session with this agent may follow, and somebody wants to know what the agent can do. */
  warm(agent: string): void;
  /** What the workspace wants of its hosts. */
  settings(settings: HostSettings): void;
  /** All secrets of the workspace, by name. */
  secrets(values: Record<string, string>): void;
  /** The gateway has another token for this host. */
  token(token: string): void;
  /** The gateway does not want this host; asking again would not change its mind. */
  refused(reason: string, why: HostRefusal): void;
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
      lost: ({ status, code }) => {
        if (code === SUPERSEDED)
          handlers.refused(
            "another host has taken over this name while this one was out of reach",
            "superseded",
          );
        else if (status === 401 || status === 403)
          handlers.refused(`HTTP ${status}: is the host token right?`, "token");
        else return "retry";
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

  async #renew(): Promise<void> {
    try {
      this.send({ t: "renew", token: await this.#gateway.token() });
    } catch (error) {
      this.#gateway.log(`token not renewed: ${reasonOf(error)}`);
    }
  }

  #received(text: string): void {
    const parsed = gatewayControl.safeParse(parseJson(text));
    if (!parsed.success) {
      // Not all of it: it may be one with secrets.
      this.#gateway.log(`control message not understood: ${text.slice(0, 20)}`);
      return;
    }
    const message = parsed.data;
    switch (message.t) {
      case "welcome":
        this.#gateway.log("connected");
        this.#handlers.settings(message);
        return;
      case "settings":
        this.#handlers.settings(message);
        return;
      case "open":
        this.#handlers.open(message.sessionId, message.agent, message.wish);
        return;
      case "token":
        this.#handlers.token(message.token);
        void this.#renew();
        return;
      case "probe":
        this.send({ t: "alive" });
        return;
      case "warm":
        this.#handlers.warm(message.agent);
        return;
      case "secrets":
        this.#handlers.secrets(message.values);
        return;
      case "expiring":
        void this.#renew();
        return;
      case "renewed":
        return;
      case "not_renewed":
        this.#gateway.log(`token not renewed: ${message.reason}`);
        return;
      case "refused":
        // The other one may go.
        if (message.why === "name") return this.#socket.drop(message.reason);
        this.#socket.close();
        this.#handlers.refused(message.reason, message.why);
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
