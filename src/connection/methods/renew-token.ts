import { verifyToken } from "../../auth/verify.ts";
import { type Caller, isReader, mayUseWorkspace } from "../../protocol/caller.ts";
import type { ClientState } from "../../protocol/client-state.ts";
import { ErrorCode, type RpcError } from "../../protocol/errors.ts";
import { type Frame, paramsOf } from "../../protocol/frame.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import { isRevoked } from "../../tenant/client/revocation-cache.ts";
import type { Client } from "../client.ts";
import { announceCaller } from "../client-sessions.ts";
import type { TokenLifetime } from "../token-lifetime.ts";

/** Continues the connection with another token and that token's rights. Nothing that the client does is interrupted. */
export async function renewToken(
  env: Env,
  client: Client,
  lifetime: TokenLifetime,
  limits: Limits,
  frame: Frame,
): Promise<{ result: { expiresAt: string } } | { error: RpcError }> {
  const { token } = paramsOf(frame);
  if (typeof token !== "string")
    return { error: { code: ErrorCode.invalidParams, message: "params.token must be a string" } };
  let caller: Caller | undefined;
  try {
    caller = await callerFor(env, limits, client.state, token);
  } catch (error) {
    console.error("token could not be checked", { error: String(error) });
    return { error: { code: ErrorCode.internal, message: "Tokens cannot be checked now" } };
  }
  if (!caller)
    return { error: { code: ErrorCode.forbidden, message: "The token is not valid for this connection" } };
  lifetime.renew(client, caller);
  await announceCaller(env, client);
  return { result: { expiresAt: expiresAt(caller) } };
}

export function expiresAt({ expires }: Caller): string {
  return isoTime(expires * 1000);
}

/** The caller of a token that is valid for this connection: the same subject, for the same workspace or link. */
async function callerFor(
  env: Env,
  limits: Limits,
  { caller: before, workspace }: ClientState,
  token: string,
): Promise<Caller | undefined> {
  const verified = await verifyToken(env, token);
  if (!verified.ok || !isReader(verified.value)) return undefined;
  const caller = verified.value;
  // A client that came by a link keeps to the one session that the link shows.
  const isSame =
    caller.tenant === before.tenant && caller.subject === before.subject && caller.session === before.session;
  if (!isSame || !mayUseWorkspace(caller, workspace)) return undefined;
  return (await isRevoked(env, limits, caller)) ? undefined : caller;
}
