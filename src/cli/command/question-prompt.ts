import { confirm, isCancel, multiselect, select, text } from "@clack/prompts";
import type { QuestionAnswer } from "../../protocol/question.ts";
import { valueFromTexts, valueProblem } from "../../protocol/question-answer.ts";
import { type FormField, type FormOption, formFields } from "../../protocol/question-form.ts";
import { isolate, visibleLine } from "../../protocol/visible-text.ts";
import { stderr } from "./output.ts";
import { INTERRUPTED } from "./permission-prompt.ts";
import { type AskedQuestion, questionText } from "./question-text.ts";

/** The user's answer. Undefined if the question was withdrawn because somebody else answered first. */
export type PromptedAnswer = QuestionAnswer | typeof INTERRUPTED | undefined;

/** Shows the question on the terminal and asks field by field. */
export async function promptForAnswer(
  question: AskedQuestion,
  withdrawn: AbortSignal,
): Promise<PromptedAnswer> {
  process.stderr.write(`\n${questionText(question, stderr)}\n`);
  const prompts = new Prompts(withdrawn);
  try {
    const isForm = question.mode === "form";
    const accepts = await prompts.take((common) =>
      select({
        ...common,
        message: "Do you answer the agent?",
        options: [
          { value: true, label: isForm ? "Fill in the form" : "Yes, I visit the page" },
          { value: false, label: "Decline" },
        ],
      }),
    );
    if (!accepts) return { action: "decline" };
    if (!isForm) return { action: "accept" };
    const content: Record<string, unknown> = {};
    for (const field of formFields(question.requestedSchema)) {
      const value = await prompts.field(field);
      if (value !== undefined) content[field.name] = value;
    }
    return { action: "accept", content };
  } catch (error) {
    if (error === INTERRUPTED) return withdrawn.aborted ? undefined : INTERRUPTED;
    throw error;
  }
}

type Common = { output: NodeJS.WriteStream; signal: AbortSignal };

/** Prompts for values; Ctrl-C, or the end of the question, throws `INTERRUPTED`. */
class Prompts {
  readonly #common: Common;

  constructor(signal: AbortSignal) {
    this.#common = { output: process.stderr, signal };
  }

  async take<Value>(ask: (common: Common) => Promise<Value>): Promise<Exclude<Value, symbol>> {
    const value = await ask(this.#common);
    if (isCancel(value) || this.#common.signal.aborted) throw INTERRUPTED;
    return value as Exclude<Value, symbol>;
  }

  /** The value of a field; undefined if the user leaves it out. */
  async field(field: FormField): Promise<unknown> {
    const message = labelOf(field);
    switch (field.kind) {
      case "boolean":
        return this.take((common) => confirm({ ...common, message, initialValue: field.default ?? false }));
      case "list":
        return field.options ? this.#several(field, message, field.options) : this.#text(field, message, "");
      case "text":
        return field.options
          ? this.#single(field, message, field.options)
          : this.#text(field, message, field.default ?? "");
      case "number":
        return this.#text(field, message, field.default === null ? "" : String(field.default));
      case "other":
        return this.#text(field, message, "");
    }
  }

  #single(
    field: FormField & { kind: "text" },
    message: string,
    options: readonly FormOption[],
  ): Promise<unknown> {
    const none = field.isRequired ? [] : [{ value: undefined, label: "(none)" }];
    return this.take((common) =>
      select<string | undefined>({
        ...common,
        message,
        options: [...none, ...options.map(shownOption)],
        ...(field.default !== null && { initialValue: field.default }),
      }),
    );
  }

  async #several(
    field: FormField & { kind: "list" },
    message: string,
    options: readonly FormOption[],
  ): Promise<unknown> {
    const chosen = await this.take((common) =>
      multiselect<string>({
        ...common,
        message,
        options: options.map(shownOption),
        initialValues: field.default,
        required: (field.minItems ?? 0) > 0,
      }),
    );
    return chosen.length > 0 || field.isRequired ? chosen : undefined;
  }

  async #text(field: FormField, message: string, initialValue: string): Promise<unknown> {
    const given = await this.take((common) =>
      text({
        ...common,
        message,
        initialValue,
        validate: (value = "") => {
          if (value === "") return field.isRequired ? "is required" : undefined;
          return valueProblem(field, valueFromTexts(field, [value]));
        },
      }),
    );
    return given === "" ? undefined : valueFromTexts(field, [given]);
  }
}

function labelOf({ title, description, isRequired }: FormField): string {
  const more = description === null ? "" : ` – ${visibleLine(description, 200)}`;
  return isolate(`${visibleLine(title, 100)}${isRequired ? " *" : ""}${more}`);
}

function shownOption({ value, title, description }: FormOption) {
  return {
    value,
    label: isolate(visibleLine(title, 100)),
    ...(description !== null && { hint: visibleLine(description, 100) }),
  };
}
