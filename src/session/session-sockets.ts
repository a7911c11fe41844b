import { objectName } from "../durable/objects.ts";
import {
  closeRegistered,
  registrationFor,
  registrationOf,
  registrationTags,
  subjectTag,
} from "../durable/socket-registration.ts";
import { HostTokenCheck } from "../durable/token-check.ts";
import type { Caller } from "../protocol/caller.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import type { Result } from "../protocol/refusal.ts";
import type { SocketRegistration } from "../protocol/rpc.ts";
import type { HostTokenName } from "../protocol/subject-rpc.ts";

/**
 * The sockets of hosts and watchers. Watchers are registered with the objects of their subjects. The sockets of hosts
 * are their workspace's business, which has them ended by their token.
 */
export class SessionSockets {
  readonly #ctx: DurableObjectState;
  readonly #hostTokens: HostTokenCheck;

  constructor(ctx: DurableObjectState, env: Env) {
    this.#ctx = ctx;
    this.#hostTokens = new HostTokenCheck(env);
  }

  /** The registration of a watcher's socket, and the tags by which this object finds the socket. */
  prepare(
    caller: Caller,
    sessionId: string,
    id: string,
  ): { registration: SocketRegistration; tags: string[] } {
    const holder = { class: "session", name: objectName(caller.tenant, sessionId) } as const;
    const registration = registrationFor(caller, "watcher", holder, id);
    return { registration, tags: registrationTags(registration) };
  }

  checkHost(caller: Caller): Promise<Result<undefined>> {
    return this.#hostTokens.check(caller);
  }

  /** The tags of a host's socket. */
  hostTags({ subject, jti, expires }: Caller): string[] {
    return [`expires:${expires}`, ...tokenTags({ subject, jti: jti ?? null })];
  }

  /** The token of a host's socket. Long names are cut. */
  hostToken(ws: WebSocket): { subject: string; jti: string } {
    const tags = this.#ctx.getTags(ws);
    const tag = (prefix: string) => tags.find((one) => one.startsWith(prefix)) ?? "";
    return { subject: tag("subject:"), jti: tag("jti:") };
  }

  /** Ends the sockets that a host has opened with a token. Returns how many there were. */
  endHostToken(token: HostTokenName): number {
    this.#hostTokens.markEnded(token);
    const [subject = "", jti = ""] = tokenTags(token);
    const sockets = this.#ctx.getWebSockets(jti).filter((ws) => this.#ctx.getTags(ws).includes(subject));
    const open = sockets.filter((ws) => ws.readyState === WebSocket.OPEN);
    for (const ws of open) ws.close(CloseCode.unauthorized, "token revoked");
    return open.length;
  }

  /** The id under which a socket is registered; undefined for the socket of a host. */
  idOf(ws: WebSocket): string | undefined {
    return registrationOf(this.#ctx, ws)?.id;
  }

  end(id: string, reason: string): void {
    closeRegistered(this.#ctx, id, reason);
  }

  /** Ends the sockets whose tokens have expired. Returns when the next token expires; null if none is left. */
  endExpired(sockets: readonly WebSocket[]): number | null {
    const now = Date.now();
    let next: number | null = null;
    for (const ws of sockets) {
      if (ws.readyState !== WebSocket.OPEN) continue;
      const tag = this.#ctx.getTags(ws).find((one) => one.startsWith("expires:"));
      const expiresAt = Number(tag?.slice("expires:".length) ?? 0) * 1000;
      if (expiresAt <= now) ws.close(CloseCode.unauthorized, "token expired");
      else next = Math.min(next ?? expiresAt, expiresAt);
    }
    return next;
  }
}

/** Longer names are cut to the platform's limit: a token of which only the end differs is ended along, and comes back. */
function tokenTags({ subject, jti }: HostTokenName): [string, string] {
  return [subjectTag(subject), `jti:${jti ?? ""}`.slice(0, TAG_CHARS)];
}

const TAG_CHARS = 256;
