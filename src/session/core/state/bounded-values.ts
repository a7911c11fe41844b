import { clip } from "../../../protocol/clipped-text.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/**
 * Values of any type and size, as the state keeps them. The state has to stay small, or waking up and saving snapshots
 * would cost more with every event. A value that does not fit stays in the log, and the state names its event.
 */

/** A value as it was sent. Without `value` it was too long to keep; event `seq` has it. */
export type Bounded = { seq: number; chars: number; value?: unknown };

/**
 * A list as it was sent. A list that is too long is cut, and its items are reduced to the essential members; event `seq`
 * has the whole list.
 */
export type BoundedList = { items: Item[]; total: number; truncated: boolean; seq?: number };

export type Item = Readonly<Record<string, unknown>>;

/** Keeps a value if it fits. `chars` is the length of its JSON, 0 if it is not kept. */
export function bound(value: unknown, seq: number): Bounded {
  const chars = jsonChars(value, STATE_BUDGET.detailChars);
  return chars === undefined ? { seq, chars: 0 } : { seq, chars, value };
}

/** Undefined when the value is no list. `essentials` names the members that a reduced item keeps. */
export function boundList(
  value: unknown,
  maxChars: number,
  essentials: readonly string[],
  seq?: number,
): BoundedList | undefined {
  if (!Array.isArray(value)) return undefined;
  const total = value.length;
  if (jsonChars(value, maxChars) !== undefined)
    return { items: value.filter(isRecord), total, truncated: false };
  const items: Item[] = [];
  let chars = 2;
  for (const entry of value) {
    if (!isRecord(entry)) continue;
    const item = reduce(entry, essentials);
    chars += JSON.stringify(item).length + 1;
    if (chars > maxChars) break;
    items.push(item);
  }
  return { items, total, truncated: true, ...(seq !== undefined && { seq }) };
}

function reduce(entry: Item, essentials: readonly string[]): Item {
  const item: Record<string, unknown> = {};
  for (const name of essentials) {
    const value = entry[name];
    if (typeof value === "string") item[name] = clip(value, STATE_BUDGET.labelChars);
    else if (typeof value === "boolean" || typeof value === "number") item[name] = value;
  }
  return item;
}

/** An id is kept whole or not at all, because a part of an id is another id. */
export function idOf(value: unknown): string | undefined {
  return typeof value === "string" && jsonChars(value, STATE_BUDGET.idChars) !== undefined
    ? value
    : undefined;
}

/** The length of a value's JSON; undefined when it exceeds `maxChars`. The cost is bounded by `maxChars` too. */
export function jsonChars(value: unknown, maxChars: number): number | undefined {
  if (roomLeft(value, maxChars, 0) < 0) return undefined;
  const chars = JSON.stringify(value).length;
  return chars > maxChars ? undefined : chars;
}

/** A deeper value counts as too long, because JSON.stringify, unlike JSON.parse, would run out of stack. */
const MAX_DEPTH = 100;

/** A quick estimate from below, negative as soon as the value cannot fit. */
function roomLeft(value: unknown, room: number, depth: number): number {
  if (typeof value === "string") return room - value.length - 2;
  if (typeof value !== "object" || value === null) return room - 1;
  if (depth > MAX_DEPTH) return -1;
  let left = room - 2;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && left >= 0; i += 1) left = roomLeft(value[i], left - 1, depth + 1);
    return left;
  }
  for (const name in value) {
    if (left < 0) return left;
    left = roomLeft((value as Item)[name], left - name.length - 3, depth + 1);
  }
  return left;
}
