import { sessionObject } from "../../durable/object-names.ts";
import { mayAnswer } from "../../protocol/caller.ts";
import { ErrorCode, forbidden, type RpcError } from "../../protocol/errors.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import type { ClientState } from "../client.ts";

/** `session/respond_to_permission`: chooses an option by its kind. An error says why that cannot be. */
export async function answerPermission(
  env: Env,
  { connection, caller }: ClientState,
  { requestId, kind }: { requestId: string; kind: string },
): Promise<RpcError | undefined> {
  if (!mayAnswer(caller)) return forbidden("session/respond_to_permission");
  const request = parseClientRequestId(requestId);
  const session = request && sessionObject(env, caller.tenant, request.sessionId);
  const answered = session
    ? await session.answerPermission(caller, request.seq, { kind }, connection)
    : "unknown";
  switch (answered) {
    case "answered":
      return undefined;
    case "unknown":
      return { code: ErrorCode.notFound, message: "No such permission request is open", data: { requestId } };
    case "no-option":
      return { code: ErrorCode.invalidParams, message: `The request has no option of the kind ${kind}` };
  }
}
