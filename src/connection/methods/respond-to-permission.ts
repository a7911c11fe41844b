import { sessionObject } from "../../durable/objects.ts";
import { mayAnswer } from "../../protocol/caller.ts";
import { forbidden, type RpcError } from "../../protocol/errors.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import { refused, rpcErrorOf, unknownPermission } from "../../protocol/refusal.ts";
import type { Client } from "../client.ts";

/**
 * `session/respond_to_permission`: chooses an option by its kind. Resolves to the error of a refusal. Like an answer, it
 * decides nothing in a session that the client is not attached to.
 */
export async function respondToPermission(
  env: Env,
  client: Pick<Client, "state" | "sessions">,
  { requestId, kind }: { requestId: string; kind: string },
): Promise<RpcError | undefined> {
  const { connection, caller } = client.state;
  if (!mayAnswer(caller)) return forbidden("session/respond_to_permission");
  const request = parseClientRequestId(requestId);
  const isAttached = request !== undefined && client.sessions().includes(request.sessionId);
  const result = isAttached
    ? await sessionObject(env, caller.tenant, request.sessionId).answerPermission(
        caller,
        request,
        { kind },
        connection,
      )
    : refused(unknownPermission(requestId));
  return result.ok ? undefined : rpcErrorOf(result.refusal);
}
