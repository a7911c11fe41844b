import { sessionObject } from "../../durable/objects.ts";
import { mayAnswer } from "../../protocol/caller.ts";
import type { ClientState } from "../../protocol/client-state.ts";
import { forbidden, type RpcError } from "../../protocol/errors.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import { refused, rpcErrorOf, unknownPermission } from "../../protocol/refusal.ts";

/** `session/respond_to_permission`: chooses an option by its kind. Resolves to the error of a refusal. */
export async function respondToPermission(
  env: Env,
  { connection, caller }: ClientState,
  { requestId, kind }: { requestId: string; kind: string },
): Promise<RpcError | undefined> {
  if (!mayAnswer(caller)) return forbidden("session/respond_to_permission");
  const request = parseClientRequestId(requestId);
  const result = request
    ? await sessionObject(env, caller.tenant, request.sessionId).answerPermission(
        caller,
        request,
        { kind },
        connection,
      )
    : refused(unknownPermission(requestId));
  return result.ok ? undefined : rpcErrorOf(result.refusal);
}
