import { type Caller, onlyWorkspace } from "../protocol/caller.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import type { ObjectAddress, SocketRegistration } from "../protocol/rpc.ts";

/**
 * The registration of open sockets with the objects of their subjects, which have them closed when their tokens are
 * revoked. Every object that accepts a socket enters it first, registers it again with each new token, and signs it off.
 */

export function registrationFor(
  caller: Caller,
  kind: SocketRegistration["kind"],
  holder: ObjectAddress,
  id: string = crypto.randomUUID(),
): SocketRegistration {
  const { tenant, subject, jti = null, expires } = caller;
  return { id, kind, tenant, subject, jti, workspace: onlyWorkspace(caller) ?? null, expires, holder };
}

/** Tags for the socket, by which its object finds it again. Tags cost nothing to keep during hibernation. */
export function registrationTags({ id, expires, tenant }: SocketRegistration): string[] {
  return [`id:${id}`, `expires:${expires}`, `tenant:${tenant}`.slice(0, TAG_CHARS)];
}

/** Finds the sockets of a subject within one object. Of names beyond the platform's limit the beginning counts. */
export function subjectTag(subject: string): string {
  return `subject:${subject}`.slice(0, TAG_CHARS);
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

export function closeRegistered(
  ctx: DurableObjectState,
  id: string,
  reason: string,
  code: number = CloseCode.unauthorized,
): void {
  for (const ws of registeredSockets(ctx, id)) ws.close(code, reason);
}
