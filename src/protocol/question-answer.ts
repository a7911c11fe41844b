import { assertNever } from "./assert-never.ts";
import { recordOf } from "./json-value.ts";
import { type FieldProblem, type QuestionAnswer, questionModeOf } from "./question.ts";
import { type FormField, type FormOption, formFields, requiredIn } from "./question-form.ts";
import type { Refusal } from "./refusal.ts";
import { FORMATS } from "./text-formats.ts";

/** Answers of people to questions, checked against the form before the agent gets them. */

/** The refusal of an answer to a question with these parameters; undefined if the answer fits. */
export function badAnswer(params: unknown, { action, content }: QuestionAnswer): Refusal | undefined {
  if (action !== "accept" || questionModeOf(params) !== "form")
    return content === undefined
      ? undefined
      : { reason: "invalid", message: "Only an accepted form has content" };
  const fields = answerProblems(recordOf(params).requestedSchema, content ?? {});
  if (fields.length === 0) return undefined;
  const message = `The answer does not fit the form: ${fields.map(sentence).join("; ")}`;
  return { reason: "bad-answer", message, fields };
}

function sentence({ field, message }: FieldProblem): string {
  return `${JSON.stringify(field)} ${message}`;
}

/**
 * What does not fit the form. A field that the form lacks fits nothing. A `pattern` is not checked: no regular expression of
 * an agent runs here, because some take for ever, and the agent checks the answer itself.
 */
export function answerProblems(
  requestedSchema: unknown,
  content: Readonly<Record<string, unknown>>,
): FieldProblem[] {
  const fields = new Map(formFields(requestedSchema).map((field) => [field.name, field]));
  const missing = [...requiredIn(requestedSchema)].flatMap((name) =>
    typeof name === "string" && !Object.hasOwn(content, name)
      ? [{ field: name, message: "is required" }]
      : [],
  );
  const wrong = Object.entries(content).flatMap(([name, value]) => {
    const field = fields.get(name);
    const message = field ? valueProblem(field, value) : "is no field of the form";
    return message === undefined ? [] : [{ field: name, message }];
  });
  return [...missing, ...wrong];
}

/** Why the value does not fit the field; undefined if it does. */
export function valueProblem(field: FormField, value: unknown): string | undefined {
  switch (field.kind) {
    case "text":
      return typeof value === "string" ? textProblem(field, value) : "must be a text";
    case "number": {
      const { isInteger, minimum, maximum } = field;
      if (typeof value !== "number" || !Number.isFinite(value)) return "must be a number";
      if (isInteger && !Number.isInteger(value)) return "must be a whole number";
      if (minimum !== null && value < minimum) return `must be at least ${minimum}`;
      return maximum !== null && value > maximum ? `must be at most ${maximum}` : undefined;
    }
    case "boolean":
      return typeof value === "boolean" ? undefined : "must be true or false";
    case "list":
      return isTexts(value) ? listProblem(field, value) : "must be a list of texts";
    case "other":
      return isPlain(value) ? undefined : "must be a text, a number, true or false, or a list of texts";
    default:
      return assertNever(field);
  }
}

function textProblem(
  { options, format, minLength, maxLength }: FormField & { kind: "text" },
  text: string,
): string | undefined {
  if (options && !isAmong(options, text)) return `must be one of ${shownOptions(options)}`;
  if (minLength !== null && lengthOf(text) < minLength) return `must have at least ${minLength} characters`;
  if (maxLength !== null && lengthOf(text) > maxLength) return `must have at most ${maxLength} characters`;
  return format !== null && !FORMATS[format](text) ? `must be ${FORMAT_NAMES[format]}` : undefined;
}

function listProblem(
  { options, minItems, maxItems }: FormField & { kind: "list" },
  list: readonly string[],
): string | undefined {
  if (options && !list.every((text) => isAmong(options, text)))
    return `may have only ${shownOptions(options)}`;
  if (minItems !== null && list.length < minItems) return `must have at least ${minItems} of its values`;
  return maxItems !== null && list.length > maxItems
    ? `must have at most ${maxItems} of its values`
    : undefined;
}

const FORMAT_NAMES = {
  email: "an e-mail address",
  uri: "an address such as https://example.com",
  date: "a date such as 2026-01-31",
  "date-time": "a time such as 2026-01-31T12:00:00Z",
} as const;

function isAmong(options: readonly FormOption[], text: string): boolean {
  return options.some(({ value }) => value === text);
}

/** The first of many options. */
function shownOptions(options: readonly FormOption[]): string {
  const shown = options.slice(0, 20).map(({ value }) => JSON.stringify(value.slice(0, 100)));
  return `${shown.join(", ")}${options.length > 20 ? " and others" : ""}`;
}

/** JSON schema counts code points. */
function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

function isPlain(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return typeof value === "string" || typeof value === "boolean" || isTexts(value);
}

/**
 * The value of a field from texts, as a page or a command line has them. A text that is no value of the field's type stays
 * a text, and the check names the problem.
 */
export function valueFromTexts(field: FormField, texts: readonly string[]): unknown {
  const [text = ""] = texts;
  switch (field.kind) {
    case "number":
      return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
    case "boolean":
      return TRUTH.get(text.toLowerCase()) ?? text;
    case "list":
      return texts;
    case "text":
    case "other":
      return text;
    default:
      return assertNever(field);
  }
}

const TRUTH: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["yes", true],
  ["on", true],
  ["false", false],
  ["no", false],
  ["off", false],
]);
