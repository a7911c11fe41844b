import { type Fields, fields } from "./message.ts";

/** session/request_permission as the older forms have it, beside what canonical ACP says. */
export function askPermission(message: Fields): Fields {
  const params = fields(message.params);
  const call = fields(params.toolCall);
  const asked = {
    requestId: message.id,
    toolName: call.name ?? call.kind ?? call.title ?? call.toolCallId,
    description: call.title ?? call.name ?? call.toolCallId,
    input: call.rawInput ?? {},
  };
  return { ...message, params: { ...asked, ...params } };
}
