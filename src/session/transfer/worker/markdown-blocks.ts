import { MetaKey } from "../../../protocol/extensions.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import { markdownDiff } from "./markdown-diff.ts";

/**
 * The parts of a transcript in Markdown. The input comes from agents and users, so nothing in it is taken to be well
 * formed: a missing or odd value is shown as empty.
 */

export type Json = Readonly<Record<string, unknown>>;

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A text on one line, for places where a line break would end the Markdown block. */
export function inline(value: unknown): string {
  return text(value).replace(/\s+/g, " ").trim();
}

/** A code block whose fence is longer than any in the text. */
function fenced(language: string, body: string): string {
  let longest = 2;
  for (const [ticks] of body.matchAll(/`+/g)) longest = Math.max(longest, ticks.length);
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${body.replace(/\n$/, "")}\n${fence}`;
}

/** A content block of ACP. */
export function contentBlock(value: unknown): string {
  const block = recordOf(value);
  switch (block.type) {
    case "text":
      return text(block.text);
    case "image":
    case "audio":
      return `*[${block.type}: ${inline(block.mimeType)}, ${size(text(block.data))}]*`;
    case "resource_link":
      return `[${inline(block.name) || inline(block.uri)}](<${inline(block.uri)}>)`;
    case "resource": {
      const { uri, text: body, mimeType } = recordOf(block.resource);
      const label = `\`${inline(uri)}\``;
      return typeof body === "string"
        ? `${label}\n\n${fenced("", body)}`
        : `${label} *[${inline(mimeType)}]*`;
    }
    default:
      return `*[${inline(block.type) || "unknown content"}]*`;
  }
}

export function toolCall(call: Json): string {
  const kind = inline(call.kind);
  const status = inline(call.status) || "no status";
  const title = inline(call.title) || inline(call.toolCallId) || "tool call";
  const locations = list(call.locations).map((location) => {
    const { path, line } = recordOf(location);
    return `\`${inline(path)}${typeof line === "number" ? `:${line}` : ""}\``;
  });
  const content = list(call.content).map(toolContent);
  return [
    `**Tool: ${title}** (${kind === "" ? "" : `${kind}, `}${status})`,
    ...(locations.length > 0 ? [locations.join(", ")] : []),
    ...(content.length > 0 ? content : rawOutput(call.rawOutput)),
    ...(recordOf(call._meta)[MetaKey.redacted] === true ? ["*[redacted]*"] : []),
  ].join("\n\n");
}

function toolContent(value: unknown): string {
  const item = recordOf(value);
  switch (item.type) {
    case "diff":
      return fenced(
        "diff",
        markdownDiff(
          text(item.path),
          typeof item.oldText === "string" ? item.oldText : null,
          text(item.newText),
        ),
      );
    case "terminal":
      return `*[terminal ${inline(item.terminalId)}]*`;
    default: {
      const block = recordOf(item.content);
      return block.type === "text" ? fenced("", text(block.text)) : contentBlock(block);
    }
  }
}

function rawOutput(value: unknown): string[] {
  if (value === undefined || value === null) return [];
  const json = typeof value === "string" ? value : jsonText(value);
  return [
    fenced(
      typeof value === "string" ? "" : "json",
      json.length > RAW_CHARS ? `${json.slice(0, RAW_CHARS)}…` : json,
    ),
  ];
}

/** A log of an earlier build may have values that are nested too deeply to be written. */
function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2);
  } catch (error) {
    if (error instanceof RangeError) return "(nested too deeply to be shown)";
    throw error;
  }
}

/** Longer raw outputs are cut: they are for programs, not for readers. */
const RAW_CHARS = 4000;

export function plan(entries: readonly unknown[]): string {
  const lines = entries.map((value) => {
    const { content, status } = recordOf(value);
    const suffix = status === "in_progress" ? " *(in progress)*" : "";
    return `- [${status === "completed" ? "x" : " "}] ${inline(content)}${suffix}`;
  });
  return ["**Plan**", lines.join("\n")].join("\n\n");
}

function size(base64: string): string {
  const bytes = Math.floor((base64.length * 3) / 4);
  return bytes < 1024 ? `${bytes} bytes` : `${Math.round(bytes / 1024)} KB`;
}
