import { isRecord } from "../../../protocol/json-value.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/**
 * What others send may be of any type and size; what the state keeps of it must stay small, or waking up
 * and saving snapshots would cost more with every event. What does not fit is left in the log, and the
 * state says where.
 */

/** A value as it was sent; without `value` it was too long to keep and is to be found in event `seq`. */
export type Bounded = { seq: number; chars: number; value?: unknown };

/** A list as it was sent or, when too long to keep, the beginning of it reduced to the essential. */
export type BoundedList = { items: Item[]; total: number; truncated: boolean };

export type Item = Readonly<Record<string, unknown>>;

/** `chars` is the length of its JSON, 0 if it is not kept. */
export function bound(value: unknown, seq: number): Bounded {
  const chars = jsonChars(value, STATE_BUDGET.detailChars);
  return chars === undefined ? { seq, chars: 0 } : { seq, chars, value };
}

/** Undefined when the value is no list at all. `essentials` names the members worth keeping in any case. */
export function boundList(
  value: unknown,
  maxChars: number,
  essentials: readonly string[],
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
  return { items, total, truncated: true };
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

/** The beginning of a text, never half a surrogate pair. */
export function clip(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const last = text.charCodeAt(maxChars - 1);
  const end = last >= 0xd800 && last <= 0xdbff ? maxChars - 1 : maxChars;
  // A copy: a slice would keep the whole text in memory.
  return JSON.parse(JSON.stringify(text.slice(0, end))) as string;
}

/** The length of a value's JSON, undefined when that is more than `maxChars`; costs no more than that either. */
export function jsonChars(value: unknown, maxChars: number): number | undefined {
  if (roomLeft(value, maxChars, 0) < 0) return undefined;
  const chars = JSON.stringify(value).length;
  return chars > maxChars ? undefined : chars;
}

/** Depth at which a value counts as too long: JSON.stringify, unlike JSON.parse, runs out of stack. */
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
