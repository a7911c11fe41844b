import { verifyToken } from "../../auth/verify.ts";
import type { ClientState } from "../../durable/attachments.ts";
import { sessionObject } from "../../durable/object-names.ts";
import { type Caller, isReader, mayUseWorkspace } from "../../protocol/caller.ts";
import { ErrorCode, type RpcError } from "../../protocol/errors.ts";
import { type Frame, paramsOf } from "../../protocol/frame.ts";
import { isRevoked } from "../../tenant/client/revocation-cache.ts";
import type { Client } from "../client.ts";

/** The same client goes on with another token, and with the rights that one gives. Nothing it does is interrupted. */
export async function renew(
  env: Env,
  client: Client,
  frame: Frame,
): Promise<{ result: { expiresAt: string } } | { error: RpcError }> {
  const { token } = paramsOf(frame);
  if (typeof token !== "string")
    return { error: { code: ErrorCode.invalidParams, message: "params.token must be a string" } };
  let caller: Caller | undefined;
  try {
    caller = await checked(env, client.state, token);
  } catch (error) {
    console.error("token could not be checked", { error: String(error) });
    return { error: { code: ErrorCode.internal, message: "Tokens cannot be checked now" } };
  }
  if (!caller)
    return { error: { code: ErrorCode.forbidden, message: "The token is not good for this connection" } };
  client.renew(caller);
  await tellSessions(env, client);
  return { result: { expiresAt: expiresAt(caller) } };
}

export function expiresAt({ expires }: Caller): string {
  return new Date(expires * 1000).toISOString();
}

/** Sessions know their clients' roles. */
export async function tellSessions(env: Env, client: Client): Promise<void> {
  const { connection, caller } = client.state;
  const told = await Promise.allSettled(
    client.sessions().map((id) => sessionObject(env, caller.tenant, id).renew(connection, caller)),
  );
  const failed = told.filter(({ status }) => status === "rejected").length;
  // Each message says who sends it: only what they show of the client is out of date.
  if (failed > 0) console.warn("sessions not told of a renewed token", { connection, sessions: failed });
}

async function checked(
  env: Env,
  { caller: before, workspace }: ClientState,
  token: string,
): Promise<Caller | undefined> {
  const verified = await verifyToken(env, token);
  if (!verified.ok || !isReader(verified.value)) return undefined;
  const caller = verified.value;
  // Who came by a link has what that shows, and no more.
  const isSame =
    caller.tenant === before.tenant && caller.subject === before.subject && caller.session === before.session;
  if (!isSame || !mayUseWorkspace(caller, workspace)) return undefined;
  return (await isRevoked(env, caller)) ? undefined : caller;
}
