import { isRecord, recordOf, textOrNull } from "./json-value.ts";
import { FORMATS, type TextFormat } from "./text-formats.ts";

/**
 * The form of a question: the restricted JSON schema of ACP, read into fields. A program that shows the form and the check
 * of its answer have the same fields before them.
 */

export type FormOption = { value: string; title: string; description: string | null };

type About = { name: string; title: string; description: string | null; isRequired: boolean };

export type TextField = About & {
  kind: "text";
  /** The values to choose from; null: any text. */
  options: readonly FormOption[] | null;
  format: TextFormat | null;
  minLength: number | null;
  maxLength: number | null;
  default: string | null;
};
export type NumberField = About & {
  kind: "number";
  isInteger: boolean;
  minimum: number | null;
  maximum: number | null;
  default: number | null;
};
export type BooleanField = About & { kind: "boolean"; default: boolean | null };
export type ListField = About & {
  kind: "list";
  /** The values to choose from; null: any texts. */
  options: readonly FormOption[] | null;
  minItems: number | null;
  maxItems: number | null;
  default: readonly string[];
};
/** A field of a type that ACP does not have, or not yet: any value that an answer may have. */
export type OtherField = About & { kind: "other" };

export type FormField = TextField | NumberField | BooleanField | ListField | OtherField;

/** The fields of a form, in the order of the schema. */
export function formFields(requestedSchema: unknown): FormField[] {
  const { properties } = recordOf(requestedSchema);
  const required = requiredIn(requestedSchema);
  return Object.entries(recordOf(properties)).map(([name, property]) =>
    fieldOf(name, recordOf(property), required.has(name)),
  );
}

/** The names of the fields that an answer must have. They may name fields that the form lacks. */
export function requiredIn(requestedSchema: unknown): ReadonlySet<unknown> {
  const { required } = recordOf(requestedSchema);
  return new Set<unknown>(Array.isArray(required) ? required : []);
}

function fieldOf(name: string, property: Readonly<Record<string, unknown>>, isRequired: boolean): FormField {
  const { type, title, description } = property;
  const about = { name, title: textOrNull(title) ?? name, description: textOrNull(description), isRequired };
  switch (type) {
    case "string":
      return {
        ...about,
        kind: "text",
        options: bothOf(optionsOf(property.enum), optionsOf(property.oneOf)),
        format: formatOf(property.format),
        minLength: numberOrNull(property.minLength),
        maxLength: numberOrNull(property.maxLength),
        default: textOrNull(property.default),
      };
    case "number":
    case "integer":
      return {
        ...about,
        kind: "number",
        isInteger: type === "integer",
        minimum: numberOrNull(property.minimum),
        maximum: numberOrNull(property.maximum),
        default: numberOrNull(property.default),
      };
    case "boolean":
      return {
        ...about,
        kind: "boolean",
        default: typeof property.default === "boolean" ? property.default : null,
      };
    case "array": {
      const items = recordOf(property.items);
      const chosen: unknown[] = Array.isArray(property.default) ? property.default : [];
      return {
        ...about,
        kind: "list",
        options: bothOf(optionsOf(items.enum), optionsOf(items.anyOf)),
        minItems: numberOrNull(property.minItems),
        maxItems: numberOrNull(property.maxItems),
        default: chosen.filter((value) => typeof value === "string"),
      };
    }
    default:
      return { ...about, kind: "other" };
  }
}

/** Plain values, or values with titles; null when there is no list. */
function optionsOf(list: unknown): FormOption[] | null {
  if (!Array.isArray(list)) return null;
  return list.flatMap((option: unknown) => {
    if (typeof option === "string") return { value: option, title: option, description: null };
    if (!isRecord(option) || typeof option.const !== "string") return [];
    const { const: value, title, description } = option;
    return { value, title: textOrNull(title) ?? value, description: textOrNull(description) };
  });
}

/** A value must be in both lists if there are two. */
function bothOf(plain: FormOption[] | null, titled: FormOption[] | null): FormOption[] | null {
  if (!plain || !titled) return titled ?? plain;
  const allowed = new Set(plain.map(({ value }) => value));
  return titled.filter(({ value }) => allowed.has(value));
}

function formatOf(format: unknown): TextFormat | null {
  return typeof format === "string" && Object.hasOwn(FORMATS, format) ? (format as TextFormat) : null;
}

function numberOrNull(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
