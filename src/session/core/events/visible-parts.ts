import { blank, byTag, each, members, scalars } from "../../../protocol/allow-list.ts";
import { MetaKey } from "../../../protocol/extensions.ts";
import { VISIBLE_OPTIONS } from "../../../protocol/permission.ts";

/** Allow-lists of structures that messages, facts and the projection share, for redacted reads. */

/** A redacted reader sees that a tool was used, and on which files. */
const OF_TOOL_CALL = {
  ...scalars("toolCallId", "title", "kind", "status"),
  locations: each(members(scalars("path", "line"))),
};
export const TOOL_CALL = members(OF_TOOL_CALL);
export const TOOL_CALL_UPDATE = members({ ...OF_TOOL_CALL, sessionUpdate: "scalar" });
export const TOOL_CALL_KEPT = members({ ...OF_TOOL_CALL, ...scalars("seq", "startedAt", "endedAt") });

/** The options of a permission request, and the chosen one. */
export const OPTIONS = VISIBLE_OPTIONS;
export const OUTCOME = members(scalars("outcome", "optionId"));

/** A person. Readers of a redacted link learn neither names nor addresses. */
export const PERSON = blank('"user"');

const OF_CONTENT = {
  ...scalars("type"),
  annotations: members({ ...scalars("lastModified", "priority"), audience: each("scalar") }),
};
const MEDIA = members({ ...OF_CONTENT, ...scalars("data", "mimeType", "uri") });

/**
 * Content blocks by their type. An embedded resource is a file: its name is shown, its contents are not. Of a block whose
 * type ACP does not have, only the type is shown.
 */
export const CONTENT = byTag(
  "type",
  {
    text: members({ ...OF_CONTENT, ...scalars("text") }),
    image: MEDIA,
    audio: MEDIA,
    resource_link: members({
      ...OF_CONTENT,
      ...scalars("uri", "name", "title", "description", "mimeType", "size"),
    }),
    resource: members({
      ...OF_CONTENT,
      resource: members({ ...scalars("uri", "mimeType"), text: blank('""'), blob: blank('""') }),
    }),
  },
  members(OF_CONTENT),
);

export const PLAN_ENTRIES = each(members(scalars("content", "priority", "status")));
/** A plan with an id: a list of entries, a text, or the address of a document. */
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
    // Values, or groups of values.
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

/** An error without its `data`, which may hold tool output. The mark of redaction stands in `data`. */
export const ERROR_MARK = `"data":{"${MetaKey.redacted}":true}`;
export const ERROR = members(scalars("code", "message"), ERROR_MARK);
