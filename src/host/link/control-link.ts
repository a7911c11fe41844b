import { z } from "zod";
import { type Gateway, GatewaySocket } from "../../node/gateway-socket.ts";
import { reasonOf } from "../../node/log.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import type { GatewayControl, HostControl } from "../../protocol/host-wire.ts";
import { parseJson } from "../../protocol/json-value.ts";
import type { IoServer } from "../../protocol/methods.ts";

const gatewayControl: z.ZodType<GatewayControl> = z.discriminatedUnion("t", [
  z.object({ t: z.literal("welcome") }),
  z.object({
    t: z.literal("open"),
    sessionId: z.string().min(1),
    agent: z.string(),
    processRequest: z.number(),
    io: z.enum(["host", "client"]).optional(),
  }),
  z.object({ t: z.literal("warm"), agent: z.string() }),
  z.object({ t: z.literal("secrets"), values: z.record(z.string(), z.string()) }),
  z.object({ t: z.literal("token"), token: z.string().min(1) }),
  z.object({ t: z.literal("probe") }),
  // The first gateways had a single reason to refuse a host and did not name it.
  z.object({
    t: z.literal("refused"),
    reason: z.string(),
    why: z.enum(["version", "name", "token", "full"]).default("version"),
  }),
  z.object({ t: z.literal("expiring"), expiresAt: z.string() }),
  z.object({ t: z.literal("renewed"), expiresAt: z.string() }),
  z.object({ t: z.literal("not_renewed"), reason: z.string() }),
]);

/** Why a gateway refuses a host for good. */
export type HostRefusal = "token" | "version" | "superseded";

/** The process that a session needs. `io` is the side that serves its files and terminals. */
export type ProcessOrder = { agent: string; processRequest: number; io: IoServer };

export type ControlHandlers = {
  /** The messages that open a new socket, `hello` first. */
  greeting(): HostControl[];
  open(sessionId: string, order: ProcessOrder): void;
  /** A client wants to know the capabilities of this agent, and may open a session with it. */
  warm(agent: string): void;
  /** All secrets of the workspace, by name. */
  secrets(values: Record<string, string>): void;
  /** The gateway issues a new token to this host. */
  token(token: string): void;
  /** The gateway refuses this host, and would refuse it again. */
  refused(reason: string, why: HostRefusal): void;
  /** Removes secrets from a message. */
  redactJson(text: string): string;
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
    const text = JSON.stringify(message);
    // A renewal carries the host's token, which is a secret to everybody else.
    this.#socket.send(message.t === "renew" ? text : this.#handlers.redactJson(text));
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
        return;
      case "open": {
        const { sessionId, agent, processRequest, io = "host" } = message;
        this.#handlers.open(sessionId, { agent, processRequest, io });
        return;
      }
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
        // The name or a place is free again when another host goes, so try again later.
        if (message.why === "name" || message.why === "full") return this.#socket.drop(message.reason);
        this.#socket.close();
        this.#handlers.refused(message.reason, message.why);
        return;
    }
  }
}
