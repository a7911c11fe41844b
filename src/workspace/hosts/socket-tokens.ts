import { verifyToken } from "../../auth/verify.ts";
import type { Deadlines } from "../../durable/deadlines.ts";
import { objectName } from "../../durable/object-names.ts";
import { enter, leave, passFor, passOf, passTags } from "../../durable/socket-registration.ts";
import { type Caller, isHost } from "../../protocol/caller.ts";
import type { GatewayControl } from "../../protocol/host-wire.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { SocketRegistration } from "../../protocol/rpc.ts";
import { isRevoked } from "../../tenant/client/revocation-cache.ts";

const SCHEMA = `
  -- The tokens of the control sockets; whether the host was told that its own is about to expire.
  CREATE TABLE IF NOT EXISTS host_pass (id TEXT PRIMARY KEY, caller TEXT NOT NULL, warned INTEGER NOT NULL DEFAULT 0);
`;

/** The tokens with which hosts are connected: each may be renewed, and ends its socket when it ends. */
export class HostPasses {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #deadlines: Pick<Deadlines<"host-token">, "set">;
  readonly #end: (ws: WebSocket, reason: string) => void;

  /** `end` is called for a socket whose token is good no more. */
  constructor(
    ctx: DurableObjectState,
    env: Env,
    deadlines: Pick<Deadlines<"host-token">, "set">,
    end: (ws: WebSocket, reason: string) => void,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#deadlines = deadlines;
    this.#end = end;
  }

  /** A host of this workspace dials in: returns the tags of its socket. */
  admit(caller: Caller): string[] {
    this.#ctx.storage.sql.exec(SCHEMA);
    const pass = this.#passFor(caller);
    this.#begin(pass, caller);
    return passTags(pass);
  }

  /** Whose host that is. */
  callerOf(ws: WebSocket): Caller | undefined {
    const id = passOf(this.#ctx, ws)?.id ?? "";
    const [row] = this.#ctx.storage.sql
      .exec<{ caller: string }>("SELECT caller FROM host_pass WHERE id = ?", id)
      .toArray();
    return row && (JSON.parse(row.caller) as Caller);
  }

  /** A host has a newer token. One that is not good leaves things as they are. */
  async renew(ws: WebSocket, token: string): Promise<GatewayControl> {
    const before = this.callerOf(ws);
    const caller = await verifyToken(this.#env, token);
    const refused: GatewayControl = { t: "not_renewed", reason: "The token is not good for this host" };
    if (!before || "refused" in caller || !isHost(caller) || caller.subject !== before.subject)
      return refused;
    const isSame = caller.tenant === before.tenant && caller.workspaces[0] === before.workspaces[0];
    if (!isSame || (await isRevoked(this.#env, caller))) return refused;
    // Otherwise a host that has none would be told again, and try again, until the end.
    if (caller.expires <= before.expires) return { t: "not_renewed", reason: "The token is no newer" };
    const id = passOf(this.#ctx, ws)?.id as string;
    this.#begin(this.#passFor(caller, id), caller);
    return { t: "renewed", expiresAt: new Date(caller.expires * 1000).toISOString() };
  }

  left(ws: WebSocket): void {
    const pass = passOf(this.#ctx, ws);
    if (!pass) return;
    this.#ctx.storage.sql.exec("DELETE FROM host_pass WHERE id = ?", pass.id);
    this.#ctx.waitUntil(leave(this.#env, pass));
  }

  /** Tells hosts whose tokens are about to expire, and ends the sockets of those whose have. */
  check(now: number): void {
    for (const { id, caller, warned } of this.#rows()) {
      const { expires } = JSON.parse(caller) as Caller;
      const sockets = this.#ctx.getWebSockets(`id:${id}`);
      if (sockets.length === 0) this.#ctx.storage.sql.exec("DELETE FROM host_pass WHERE id = ?", id);
      else if (expires * 1000 <= now) for (const ws of sockets) this.#end(ws, "token expired");
      else if (!warned && expires * 1000 - LIMITS.tokenWarningMs <= now) this.#warn(id, sockets, expires);
    }
    this.#arm(now);
  }

  #warn(id: string, sockets: readonly WebSocket[], expires: number): void {
    this.#ctx.storage.sql.exec("UPDATE host_pass SET warned = 1 WHERE id = ?", id);
    const message: GatewayControl = { t: "expiring", expiresAt: new Date(expires * 1000).toISOString() };
    for (const ws of sockets) ws.send(JSON.stringify(message));
  }

  #passFor(caller: Caller, id?: string): SocketRegistration {
    return passFor(
      caller,
      "host",
      { class: "workspace", name: objectName(caller.tenant, caller.workspaces[0] as string) },
      id,
    );
  }

  #begin(pass: SocketRegistration, caller: Caller): void {
    this.#ctx.storage.sql.exec(
      "INSERT OR REPLACE INTO host_pass (id, caller) VALUES (?, ?)",
      pass.id,
      JSON.stringify(caller),
    );
    // Also if that is past: what is left of a short token is to be told at once.
    this.#arm(0);
    this.#ctx.waitUntil(
      enter(this.#env, pass).then((isIn) => {
        if (isIn) return;
        for (const ws of this.#ctx.getWebSockets(`id:${pass.id}`)) this.#end(ws, "token revoked");
      }),
    );
  }

  /** For whatever comes next after that time: a warning, or an end. */
  #arm(after: number): void {
    const times = this.#rows().map(({ caller, warned }) => {
      const end = (JSON.parse(caller) as Caller).expires * 1000;
      return warned ? end : end - LIMITS.tokenWarningMs;
    });
    const next = times.filter((at) => at > after);
    if (next.length > 0) this.#deadlines.set("host-token", Math.min(...next));
  }

  #rows(): { id: string; caller: string; warned: number }[] {
    return this.#ctx.storage.sql
      .exec<{ id: string; caller: string; warned: number }>("SELECT * FROM host_pass")
      .toArray();
  }
}
