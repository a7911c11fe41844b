import { each, members, scalars } from "../../../protocol/allow-list.ts";
import { MetaKey } from "../../../protocol/extensions.ts";
import { VISIBLE_OPTIONS } from "../../../protocol/permission.ts";

/** What may be shown of the things that messages, notes and the projection have in common. */

/** That a tool was used, and on which files. */
const OF_TOOL_CALL = {
  ...scalars("toolCallId", "title", "kind", "status"),
  locations: each(members(scalars("path", "line"))),
};
export const TOOL_CALL = members(OF_TOOL_CALL);
export const TOOL_CALL_UPDATE = members({ ...OF_TOOL_CALL, sessionUpdate: "scalar" });
export const TOOL_CALL_KEPT = members({ ...OF_TOOL_CALL, ...scalars("seq", "startedAt", "endedAt") });

/** The options of a permission request, and which was chosen. */
export const OPTIONS = VISIBLE_OPTIONS;
export const OUTCOME = members(scalars("outcome", "optionId"));

/** Content blocks of any type that ACP has. */
export const CONTENT = members({
  ...scalars("type", "text", "data", "mimeType", "uri", "name", "title", "description", "size"),
  resource: members(scalars("uri", "mimeType", "text", "blob")),
  annotations: members({ ...scalars("lastModified", "priority"), audience: each("scalar") }),
});

export const PLAN_ENTRIES = each(members(scalars("content", "priority", "status")));
/** One of several: a list, a text, or where there is one. */
export const NAMED_PLAN = members({
  ...scalars("type", "planId", "uri", "content"),
  entries: PLAN_ENTRIES,
});

export const MODES = each(members(scalars("id", "name", "description")));
export const MODELS = each(members(scalars("modelId", "name", "description")));
export const COMMANDS = each(members({ ...scalars("name", "description"), input: members(scalars("hint")) }));

const VALUE = scalars("value", "name", "description");
export const CONFIG_OPTIONS = each(
  members({
    ...scalars("id", "name", "description", "category", "type", "currentValue"),
    // Values, or groups of them.
    options: each(members({ ...VALUE, group: "scalar", options: each(members(VALUE)) })),
  }),
);

export const COST = members(scalars("amount", "currency"));
export const TOKENS = members(
  scalars(
    ...["totalTokens", "inputTokens", "outputTokens", "thoughtTokens"],
    ...["cachedReadTokens", "cachedWriteTokens"],
  ),
);

/** What it was that went wrong; its data may be anything, and so may have the mark. */
export const ERROR_MARK = `"data":{"${MetaKey.redacted}":true}`;
export const ERROR = members(scalars("code", "message"), ERROR_MARK);
