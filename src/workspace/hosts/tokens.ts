import { verifyToken } from "../../auth/verify.ts";
import type { Deadlines } from "../../durable/deadlines.ts";
import { registeredSockets, registrationOf } from "../../durable/socket-registration.ts";
import { HostTokenCheck } from "../../durable/token-check.ts";
import { type Caller, isHost } from "../../protocol/caller.ts";
import type { GatewayControl } from "../../protocol/host-wire.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/refusal.ts";
import type { HostTokenName } from "../../protocol/subject-rpc.ts";
import { sendControl } from "./sockets.ts";

export type HostTokenTimers = Pick<Deadlines<"host-token">, "set">;

type Row = { id: string; caller: string; warned: number };

/** The tokens of the hosts' control sockets. A host may renew its token; a socket ends with its token. */
export class HostTokens {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #timers: HostTokenTimers;
  readonly #check: HostTokenCheck;
  readonly #end: (ws: WebSocket, reason: string) => void;

  /** `end` is called for each socket whose token has expired. */
  constructor(
    ctx: DurableObjectState,
    env: Env,
    limits: Limits,
    timers: HostTokenTimers,
    end: (ws: WebSocket, reason: string) => void,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#limits = limits;
    this.#timers = timers;
    this.#check = new HostTokenCheck(env);
    this.#end = end;
  }

  /** Refuses a token that is revoked, or of which nobody can say it now. */
  check(caller: Caller): Promise<Result<undefined>> {
    return this.#check.check(caller);
  }

  /** A host of this workspace dials in. Returns the tags of its socket. */
  admit(caller: Caller): string[] {
    const id = crypto.randomUUID();
    this.#begin(id, caller);
    return [`id:${id}`];
  }

  /** The open sockets of a token that is revoked. A check that is under way does not let the token in. */
  end(token: HostTokenName): WebSocket[] {
    this.#check.markEnded(token);
    const ids = this.#rows().flatMap(({ id, caller }) => {
      const { subject, jti = null } = JSON.parse(caller) as Caller;
      return subject === token.subject && jti === token.jti ? [id] : [];
    });
    const sockets = ids.flatMap((id) => registeredSockets(this.#ctx, id));
    return sockets.filter((ws) => ws.readyState === WebSocket.OPEN);
  }

  callerOf(ws: WebSocket): Caller | undefined {
    const id = registrationOf(this.#ctx, ws)?.id ?? "";
    const [row] = this.#ctx.storage.sql
      .exec<{ caller: string }>("SELECT caller FROM host_token WHERE id = ?", id)
      .toArray();
    return row && (JSON.parse(row.caller) as Caller);
  }

  /** Replaces the token of the host called `name` by a newer one. A token that is not accepted changes nothing. */
  async renew(ws: WebSocket, token: string, name: string | undefined): Promise<GatewayControl> {
    const before = this.callerOf(ws);
    const verified = await verifyToken(this.#env, token);
    const refused: GatewayControl = { t: "not_renewed", reason: "The token is not valid for this host" };
    if (!before || !verified.ok) return refused;
    const caller = verified.value;
    if (!isHost(caller) || caller.subject !== before.subject) return refused;
    // A token may bind a host to its name, and never frees it from one.
    if (caller.host !== before.host && (before.host !== undefined || caller.host !== name)) return refused;
    const isSame = caller.tenant === before.tenant && caller.workspaces[0] === before.workspaces[0];
    if (!isSame) return refused;
    const checked = await this.check(caller);
    if (!checked.ok)
      return checked.refusal.reason === "unavailable"
        ? { t: "not_renewed", reason: checked.refusal.message }
        : refused;
    // Otherwise a host without a newer token would be warned, and would try again, until its token expires.
    if (caller.expires <= before.expires)
      return { t: "not_renewed", reason: "The token expires no later than the current one" };
    const id = registrationOf(this.#ctx, ws)?.id as string;
    this.#begin(id, caller);
    return { t: "renewed", expiresAt: isoTime(caller.expires * 1000) };
  }

  /** The socket is closed. */
  remove(ws: WebSocket): void {
    const id = registrationOf(this.#ctx, ws)?.id;
    if (id !== undefined) this.#ctx.storage.sql.exec("DELETE FROM host_token WHERE id = ?", id);
  }

  /** Warns hosts whose tokens are about to expire, and ends the sockets whose tokens have expired. */
  checkExpiry(now: number): void {
    for (const { id, caller, warned } of this.#rows()) {
      const { expires } = JSON.parse(caller) as Caller;
      const sockets = registeredSockets(this.#ctx, id);
      if (sockets.length === 0) this.#ctx.storage.sql.exec("DELETE FROM host_token WHERE id = ?", id);
      else if (expires * 1000 <= now) for (const ws of sockets) this.#end(ws, "token expired");
      else if (!warned && expires * 1000 - this.#limits.tokenWarningMs <= now)
        this.#warn(id, sockets, expires);
    }
    this.#arm(now);
  }

  #warn(id: string, sockets: readonly WebSocket[], expires: number): void {
    this.#ctx.storage.sql.exec("UPDATE host_token SET warned = 1 WHERE id = ?", id);
    for (const ws of sockets) sendControl(ws, { t: "expiring", expiresAt: isoTime(expires * 1000) });
  }

  #begin(id: string, caller: Caller): void {
    this.#ctx.storage.sql.exec(
      "INSERT OR REPLACE INTO host_token (id, caller) VALUES (?, ?)",
      id,
      JSON.stringify(caller),
    );
    // Also for a time in the past: the host of a token that is short-lived from the start is warned at once.
    this.#arm(0);
  }

  /** Sets the deadline for the next warning or expiry after the given time. */
  #arm(after: number): void {
    const times = this.#rows().map(({ caller, warned }) => {
      const end = (JSON.parse(caller) as Caller).expires * 1000;
      return warned ? end : end - this.#limits.tokenWarningMs;
    });
    const next = times.filter((at) => at > after);
    if (next.length > 0) this.#timers.set("host-token", Math.min(...next));
  }

  #rows(): Row[] {
    return this.#ctx.storage.sql.exec<Row>("SELECT * FROM host_token").toArray();
  }
}
