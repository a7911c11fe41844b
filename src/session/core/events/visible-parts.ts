import { blank, byTag, byValue, each, members, scalars } from "../../../protocol/allow-list.ts";
import { MetaKey } from "../../../protocol/extensions.ts";
import { isRecord, recordOf } from "../../../protocol/json-value.ts";
import { VISIBLE_OPTIONS } from "../../../protocol/permission.ts";
import { visibleUri } from "../../../protocol/visible-uri.ts";

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

/** The name of a document, without the contents or credentials that an address can carry. */
const URI = byValue((uri) => {
  const shown = typeof uri === "string" ? visibleUri(uri) : undefined;
  return shown === undefined || shown === uri ? "scalar" : blank(JSON.stringify(shown));
});

const MEDIA = members({ ...OF_CONTENT, ...scalars("data", "mimeType"), uri: URI });

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
      uri: URI,
      ...scalars("name", "title", "description", "mimeType", "size"),
    }),
    resource: members({
      ...OF_CONTENT,
      resource: members({ uri: URI, mimeType: "scalar", text: blank('""'), blob: blank('""') }),
    }),
  },
  members(OF_CONTENT),
);

export const PLAN_ENTRIES = each(members(scalars("content", "priority", "status")));
/** A plan with an id: a list of entries, a text, or the address of a document. */
export const NAMED_PLAN = members({
  ...scalars("type", "planId", "content"),
  uri: URI,
  entries: PLAN_ENTRIES,
});

export const MODES = each(members(scalars("id", "name", "description")));
export const MODELS = each(members(scalars("modelId", "name", "description")));
export const COMMANDS = each(members({ ...scalars("name", "description"), input: members(scalars("hint")) }));

const VALUE = scalars("value", "name", "description");
const CONFIG_OPTION = {
  ...scalars("id", "name", "description", "category", "type"),
  // Values, or groups of values.
  options: each(members({ ...VALUE, group: "scalar", options: each(members(VALUE)) })),
};
/** A value that somebody has typed in may be a key. A value that the agent offers to everybody is none. */
export const CONFIG_OPTIONS = each(
  byValue((option) => {
    const { currentValue, options } = recordOf(option);
    const isHarmless = typeof currentValue === "boolean" || offeredValues(options).includes(currentValue);
    return members({ ...CONFIG_OPTION, currentValue: isHarmless ? "scalar" : blank('""') });
  }),
);
/** A choice among the values that the agent offers shows in the option itself. */
export const CONFIG_VALUE = byValue((value) => (typeof value === "boolean" ? "scalar" : blank('""')));

function offeredValues(options: unknown): unknown[] {
  if (!Array.isArray(options)) return [];
  return options.filter(isRecord).flatMap((one) => [one.value, ...offeredValues(one.options)]);
}

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
