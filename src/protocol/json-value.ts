/** Values of parsed JSON whose form nobody has promised. */

export type JsonObject = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value if it is an object, otherwise an empty one. */
export function recordOf(value: unknown): JsonObject {
  return isRecord(value) ? value : EMPTY;
}

const EMPTY: JsonObject = Object.freeze({});

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

/** Undefined for a text that is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
