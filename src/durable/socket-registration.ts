import type { Caller } from "../protocol/caller.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import type { Allowance, ObjectAddress, SocketRegistration } from "../protocol/rpc.ts";

/**
 * The registration of open sockets with their tenant, which closes them when their tokens are revoked. Every object
 * that accepts a socket registers it, registers it again with each new token, and unregisters it at its end.
 */

export function registrationFor(
  { tenant, subject, jti, expires }: Caller,
  kind: SocketRegistration["kind"],
  holder: ObjectAddress,
  id: string = crypto.randomUUID(),
): SocketRegistration {
  return { id, kind, tenant, subject, jti: jti ?? null, expires, holder };
}

/**
 * Registers a socket in the background, after it was accepted: a revocation that the tenant has made before is found
 * here, a later one finds the socket. `end` is called if the socket must be closed.
 */
export function register(
  ctx: DurableObjectState,
  env: Env,
  registration: SocketRegistration,
  end: () => void,
): void {
  ctx.waitUntil(
    isRegistered(env, registration).then((isAllowed) => {
      if (!isAllowed) end();
    }),
  );
}

/** False: the token is revoked, or the tenant does not respond and could not revoke the token later. */
async function isRegistered(env: Env, registration: SocketRegistration): Promise<boolean> {
  const { tenant, kind, id } = registration;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await env.TENANT_DO.getByName(tenant).registerSocket(registration);
    } catch (error) {
      console.error("socket not registered", { kind, id, attempt, error: String(error) });
      if (attempt === ATTEMPTS) return false;
    }
  }
}

const ATTEMPTS = 3;

/** `refund` is the unspent rest of the connection's allowance. */
export async function unregister(
  env: Env,
  { tenant, id }: Pick<SocketRegistration, "tenant" | "id">,
  refund?: { subject: string; unused: Allowance },
): Promise<void> {
  try {
    await env.TENANT_DO.getByName(tenant).unregisterSocket(id, refund);
  } catch (error) {
    // The registration ends with its token, and the allowance with its hour.
    console.warn("socket not unregistered", { id, error: String(error) });
  }
}

/** Tags for the socket, by which its object finds it again. Tags cost nothing to keep during hibernation. */
export function registrationTags({ id, expires, tenant }: SocketRegistration): string[] {
  return [`id:${id}`, `expires:${expires}`, `tenant:${tenant}`.slice(0, TAG_CHARS)];
}

/** The platform's limit. The names of tenants are shorter. */
const TAG_CHARS = 256;

/** The registration in a socket's tags; undefined for a socket that was never registered. */
export function registrationOf(
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

export function registeredSockets(ctx: DurableObjectState, id: string): WebSocket[] {
  return ctx.getWebSockets(`id:${id}`);
}

export function closeRegistered(ctx: DurableObjectState, id: string, reason: string): void {
  for (const ws of registeredSockets(ctx, id)) ws.close(CloseCode.unauthorized, reason);
}
