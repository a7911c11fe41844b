import { z } from "zod";
import { type Gateway, GatewaySocket } from "../../node/gateway-socket.ts";
import { reasonOf } from "../../node/log.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import type { GatewayControl, HostControl, HostSettings } from "../../protocol/host-wire.ts";
import { parseJson } from "../../protocol/json-value.ts";

const gatewayControl: z.ZodType<GatewayControl> = z.discriminatedUnion("t", [
  z.object({ t: z.literal("welcome"), clientIo: z.enum(["host", "client"]).optional() }),
  z.object({ t: z.literal("settings"), clientIo: z.enum(["host", "client"]).optional() }),
  z.object({
    t: z.literal("open"),
    sessionId: z.string().min(1),
    agent: z.string(),
    processRequest: z.number(),
  }),
  z.object({ t: z.literal("warm"), agent: z.string() }),
  z.object({ t: z.literal("secrets"), values: z.record(z.string(), z.string()) }),
  z.object({ t: z.literal("token"), token: z.string().min(1) }),
  z.object({ t: z.literal("probe") }),
  // The first gateways had a single reason to refuse a host and did not name it.
  z.object({
    t: z.literal("refused"),
    reason: z.string(),
    why: z.enum(["version", "name"]).default("version"),
  }),
  z.object({ t: z.literal("expiring"), expiresAt: z.string() }),
  z.object({ t: z.literal("renewed"), expiresAt: z.string() }),
  z.object({ t: z.literal("not_renewed"), reason: z.string() }),
]);

/** Why a gateway refuses a host for good. */
export type HostRefusal = "token" | "version" | "superseded";

export type ControlHandlers = {
  /** The messages that open a new socket, `hello` first. */
  greeting(): HostControl[];
  open(sessionId: string, agent: string, processRequest: number): void;
  /** A client wants to know the capabilities of this agent, and may open a session with it. */
  warm(agent: string): void;
  /** The workspace's settings for its hosts. */
  settings(settings: HostSettings): void;
  /** All secrets of the workspace, by name. */
  secrets(values: Record<string, string>): void;
  /** The gateway issues a new token to this host. */
  token(token: string): void;
  /** The gateway refuses this host, and would refuse it again. */
  refused(reason: string, why: HostRefusal): void;
};

/** The control socket between a host and its workspace: the host offers agents, the gateway requests processes. */
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
        if (code === CloseCode.superseded)
          handlers.refused("another host took over this name while this host was offline", "superseded");
        else if (status === 401 || status === 403)
          handlers.refused(`HTTP ${status}: check the host token`, "token");
        else return "retry";
        return "give up";
      },
    });
  }

  /** The message is lost if the socket is down. The next greeting repeats everything that still matters. */
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
      // The message may contain secrets, so only its beginning is logged.
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
        this.#handlers.open(message.sessionId, message.agent, message.processRequest);
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
        // The name is free again when the other host goes, so try again later.
        if (message.why === "name") return this.#socket.drop(message.reason);
        this.#socket.close();
        this.#handlers.refused(message.reason, message.why);
        return;
    }
  }
}
