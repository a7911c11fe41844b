import type { QuestionMode } from "../../protocol/question.ts";
import { type FormField, formFields } from "../../protocol/question-form.ts";
import { isolate, visibleLine, visibleText } from "../../protocol/visible-text.ts";
import type { Terminal } from "../terminal.ts";

/** A question as the agent or the gateway has put it. */
export type AskedQuestion = {
  mode: QuestionMode;
  message: string;
  requestedSchema: unknown;
  url: string | null;
};

/** All that a question says, for a person at a terminal. */
export function questionText(
  { mode, message, requestedSchema, url }: AskedQuestion,
  { colours }: Terminal,
): string {
  const { bold, dim } = colours;
  const asked = bold(isolate(visibleText(message, { newlines: "plain" }).text));
  if (mode === "url") return `${asked}\n  ${isolate(visibleLine(url ?? ""))}`;
  const fields = formFields(requestedSchema).map(
    (field) =>
      `  ${isolate(visibleLine(field.name))}${field.isRequired ? " *" : ""}  ${dim(meaningOf(field))}`,
  );
  return [asked, ...fields].join("\n");
}

function meaningOf(field: FormField): string {
  const title = field.title === field.name ? [] : [visibleLine(field.title, 100)];
  return isolate([...title, valuesOf(field)].join(", "));
}

function valuesOf(field: FormField): string {
  const options = (field.kind === "text" || field.kind === "list") && field.options;
  if (options) {
    const names = options.map(({ value }) => visibleLine(value, 40)).join(" | ");
    return field.kind === "list" ? `any of ${names}` : names;
  }
  if (field.kind === "number") return field.isInteger ? "whole number" : "number";
  if (field.kind === "boolean") return "true | false";
  return field.kind === "text" ? (field.format ?? "text") : "text";
}
