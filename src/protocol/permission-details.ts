import { unifiedDiff } from "./dialects/diff.ts";
import { isRecord, textOf } from "./json-value.ts";
import { visibleText } from "./visible-text.ts";

/**
 * All that a permission request asks for, as text for the person who answers it: the command, the paths, the changes,
 * the whole input. Nothing is left out silently.
 */

/** One part of the request. `hiddenChars` counts the characters that did not fit: who allows allows them too. */
export type PermissionDetail = { name: string; text: string; hiddenChars: number };

/** The longest text of all parts together, where the caller names no other length. */
const DETAILS_CHARS = 64 * 1024;

/**
 * `requested` is the tool call of the request. `announced` is the tool call as the agent has described it before, which
 * may say more, or something else: where both say something different, both are shown.
 */
export function permissionDetails(
  requested: unknown,
  announced: unknown,
  maxChars = DETAILS_CHARS,
): PermissionDetail[] {
  const parts = partsOf(requested);
  const said = new Set(parts.map(keyOf));
  const names = new Set(parts.map(({ name }) => name));
  const before = partsOf(announced)
    .filter((part) => !said.has(keyOf(part)))
    .map((part) => (names.has(part.name) ? { ...part, name: `announced ${part.name}` } : part));
  let room = maxChars;
  return [...parts, ...before].map(({ name, pieces }) => {
    const detail = { name, text: "", hiddenChars: 0 };
    for (const { text, newlines } of pieces) {
      const shown = visibleText(text, { maxChars: detail.hiddenChars > 0 ? 0 : room, newlines });
      detail.text += shown.text;
      detail.hiddenChars += shown.hiddenChars;
      room -= shown.text.length;
    }
    return detail;
  });
}

/** The sentence about the characters that are not shown; undefined if all are. */
export function hiddenNotice(details: readonly PermissionDetail[]): string | undefined {
  const hidden = details.reduce((sum, { hiddenChars }) => sum + hiddenChars, 0);
  if (hidden === 0) return undefined;
  return `${hidden} characters are not shown here. Allowing the request allows them too, unseen.`;
}

/**
 * A part is text of the agent, and text around it. Only the part's maker knows which line breaks are the agent's own.
 * Marking comes last, for as much as is shown: a request may be very long.
 */
type Part = { name: string; pieces: Piece[] };
type Piece = { text: string; newlines: "shown" | "mark" | "plain" };

function keyOf({ name, pieces }: Part): string {
  return `${name}\n${pieces.map(({ text }) => text).join("")}`;
}

function partsOf(toolCall: unknown): Part[] {
  if (!isRecord(toolCall)) return [];
  const { title, kind, locations, content, rawInput } = toolCall;
  return [
    ...textPart("title", textOf(title)),
    ...textPart("kind", textOf(kind)),
    ...textPart("command", commandIn(rawInput)),
    ...pathParts(locations),
    ...(Array.isArray(content) ? content.flatMap(contentParts) : []),
    ...(rawInput === undefined || rawInput === null ? [] : [{ name: "input", pieces: [json(rawInput)] }]),
  ];
}

function textPart(name: string, text: string | undefined): Part[] {
  return text === undefined || text === "" ? [] : [{ name, pieces: [{ text, newlines: "shown" }] }];
}

/** Agents give the command of a shell as a text, or as a list of words. */
function commandIn(rawInput: unknown): string | undefined {
  if (!isRecord(rawInput)) return undefined;
  const { command = rawInput.cmd } = rawInput;
  return typeof command === "string" ? command : command == null ? undefined : JSON.stringify(command);
}

function pathParts(locations: unknown): Part[] {
  if (!Array.isArray(locations) || locations.length === 0) return [];
  const pieces = locations.flatMap((location: unknown, i): Piece[] => {
    const { path, line } = isRecord(location) ? location : { path: location, line: undefined };
    const end = `${typeof line === "number" ? `:${line}` : ""}${i < locations.length - 1 ? "\n" : ""}`;
    return [oneLine(path), { text: end, newlines: "plain" }];
  });
  return [{ name: "paths", pieces }];
}

function contentParts(item: unknown): Part[] {
  if (isRecord(item) && item.type === "diff" && typeof item.newText === "string") {
    const { path, oldText, newText } = item;
    const changed = unifiedDiff("file", typeof oldText === "string" ? oldText : "", newText);
    // The first two lines name the file; its real path stands there instead.
    const lines = changed.split("\n").slice(2).join("\n");
    const body: Piece = { text: `\n${lines === "" ? "(no change)" : lines}`, newlines: "plain" };
    return [{ name: "change", pieces: [oneLine(path), body] }];
  }
  const block = isRecord(item) && item.type === "content" ? item.content : item;
  if (isRecord(block) && block.type === "text" && typeof block.text === "string")
    return textPart("content", block.text);
  return [{ name: "content", pieces: [json(item)] }];
}

function oneLine(value: unknown): Piece {
  return typeof value === "string" ? { text: value, newlines: "mark" } : json(value ?? null);
}

/** A line break in indented JSON is never part of a value. */
function json(value: unknown): Piece {
  return { text: JSON.stringify(value, null, 2) ?? "null", newlines: "plain" };
}
