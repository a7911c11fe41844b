import { type JsonObject, recordOf } from "../json-value.ts";

/** `session/request_permission` with the members of the older forms beside the canonical ones. */
export function askPermission(message: JsonObject): JsonObject {
  const params = recordOf(message.params);
  const call = recordOf(params.toolCall);
  const asked = {
    requestId: message.id,
    toolName: call.name ?? call.kind ?? call.title ?? call.toolCallId,
    description: call.title ?? call.name ?? call.toolCallId,
    input: call.rawInput ?? {},
  };
  return { ...message, params: { ...asked, ...params } };
}
