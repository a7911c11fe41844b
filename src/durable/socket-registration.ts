import type { Caller } from "../protocol/caller.ts";
import { UNAUTHORIZED } from "../protocol/close-codes.ts";
import type { Allowance, ObjectAddress, SocketRegistration } from "../protocol/rpc.ts";

export function passFor(
  { tenant, subject, jti, expires }: Caller,
  kind: SocketRegistration["kind"],
  holder: ObjectAddress,
  id: string = crypto.randomUUID(),
): SocketRegistration {
  return { id, kind, tenant, subject, jti: jti ?? null, expires, holder };
}

/** Makes it known to the tenant, again when its token is another. False: the token was revoked, so it must end. */
export async function enter(env: Env, pass: SocketRegistration): Promise<boolean> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await env.TENANT_DO.getByName(pass.tenant).enter(pass);
    } catch (error) {
      // What its tenant does not know of could not be revoked.
      console.error("socket not entered", { kind: pass.kind, id: pass.id, attempt, error: String(error) });
      if (attempt === ATTEMPTS) return false;
    }
  }
}

const ATTEMPTS = 3;

/** `rest`: what is not needed any more of its subject's quotas. */
export async function leave(
  env: Env,
  { tenant, id }: Pick<SocketRegistration, "tenant" | "id">,
  rest?: { subject: string; unused: Allowance },
): Promise<void> {
  try {
    await env.TENANT_DO.getByName(tenant).leave(id, rest);
  } catch (error) {
    // Its line goes when its token expires, and what it did not need with the hour.
    console.warn("socket not signed off", { id, error: String(error) });
  }
}

/** What an object must know of a socket to end it, as tags, because they cost nothing to keep. */
export function passTags({ id, expires, tenant }: SocketRegistration): string[] {
  return [`id:${id}`, `expires:${expires}`, `tenant:${tenant}`.slice(0, TAG_CHARS)];
}

/** A tag has at most 256 characters; a tenant's name has fewer. */
const TAG_CHARS = 256;

/** The same read back; undefined for a socket that has none. */
export function passOf(
  ctx: DurableObjectState,
  ws: WebSocket,
): Pick<SocketRegistration, "id" | "expires" | "tenant"> | undefined {
  const tags = ctx.getTags(ws);
  const value = (name: string) => tags.find((tag) => tag.startsWith(`${name}:`))?.slice(name.length + 1);
  const id = value("id");
  return id === undefined
    ? undefined
    : { id, expires: Number(value("expires")), tenant: value("tenant") ?? "" };
}

export function endSocket(ctx: DurableObjectState, id: string, reason: string): void {
  for (const ws of ctx.getWebSockets(`id:${id}`)) ws.close(UNAUTHORIZED, reason);
}
