import { html } from "hono/html";
import type { AnswerLink } from "../../../auth/answer-link.ts";
import { parseJson } from "../../../protocol/json-value.ts";
import type { FieldProblem, QuestionAction, QuestionSummary } from "../../../protocol/question.ts";
import { valueFromTexts } from "../../../protocol/question-answer.ts";
import { type FormField, type FormOption, formFields } from "../../../protocol/question-form.ts";
import { visibleLine, visibleText } from "../../../protocol/visible-text.ts";
import { type Content, line, linkNote } from "./page.ts";

/** The page of a link to a question: its form as a form of HTML, or its address. Nothing on the page runs a script. */

type Html = ReturnType<typeof html>;

/** An answer that was refused, so that nobody has to fill in the form anew. */
export type RefusedForm = {
  content: Readonly<Record<string, unknown>>;
  problems: readonly FieldProblem[];
};

export function questionPage(link: AnswerLink, question: QuestionSummary, refused?: RefusedForm): Content {
  const { mode, url } = question;
  const isForm = mode === "form";
  return {
    title: "Question",
    body: html`
      <p class="eyebrow">An agent asks</p>
      <h1>${lines(question.message)}</h1>
      <dl>
        <dt>Session</dt><dd>${line(question.sessionTitle ?? link.session)}</dd>
        <dt>Workspace</dt><dd>${line(question.workspace)}</dd>
      </dl>
      ${refused && html`<p class="means always">The answer does not fit the form yet.</p>`}
      <form method="post">
        ${isForm ? fieldsOf(question).map((field, i) => fieldBlock(field, `${i}`, refused)) : address(url ?? "")}
        <button class="allow" name="action" value="accept">${isForm ? "Send" : "Accept"}</button>
        <button class="deny" name="action" value="decline" formnovalidate>Decline</button>
      </form>
      ${linkNote(link)}`,
  };
}

export function questionAnsweredPage({ message }: QuestionSummary, action: QuestionAction): Content {
  const isAccepted = action === "accept";
  const title = isAccepted ? "Answered" : "Declined";
  return {
    title,
    body: html`
      <p class="eyebrow ${isAccepted ? "allow" : "deny"}">${title}</p>
      <h1>${lines(message)}</h1>
      <p>The agent was told.</p>
      <p class="small">You can close this page.</p>`,
  };
}

/** The content of a form that the page sent. An empty text means that the field was left out. */
export function contentOf(question: QuestionSummary, form: FormData): Readonly<Record<string, unknown>> {
  const entries = fieldsOf(question).flatMap((field, i): [string, unknown][] => {
    const sent = form.getAll(`${i}`).filter((text) => typeof text === "string");
    if (field.kind === "boolean") return [[field.name, sent.length > 0]];
    if (field.kind === "list")
      return listEntry(
        field,
        sent.map((text) => textOf(field, text)),
      );
    const [text = ""] = sent;
    return text === "" ? [] : [[field.name, valueFromTexts(field, [textOf(field, text)])]];
  });
  return Object.fromEntries(entries);
}

/** A browser sends nothing for a list of which nothing is chosen. */
function listEntry({ name, isRequired }: FormField, values: readonly string[]): [string, unknown][] {
  return values.length > 0 || isRequired ? [[name, values]] : [];
}

/** Options are numbered on the page, because any text may be the value of one. A browser sends line breaks as CRLF. */
function textOf(field: FormField, sent: string): string {
  if ((field.kind === "text" || field.kind === "list") && field.options)
    return field.options[Number(sent)]?.value ?? "";
  return sent.replaceAll("\r\n", "\n");
}

function fieldsOf({ requestedSchema }: QuestionSummary): FormField[] {
  return formFields(requestedSchema === null ? {} : parseJson(requestedSchema));
}

/** Text of the agent on several lines: marked, and each line isolated. */
function lines(text: string): Html[] {
  return visibleText(text, { newlines: "plain" })
    .text.split("\n")
    .map((one, i) => html`${i > 0 ? "\n" : ""}<bdi>${one}</bdi>`);
}

/** Only an address of the web becomes a link. */
function address(url: string): Html {
  const shown = line(url);
  const isWeb = /^https?:\/\//i.test(url);
  return html`
        <p>The agent asks you to visit this page. It does not come from the gateway: check the address before you open it.</p>
        <pre>${isWeb ? html`<a href="${url}" rel="noopener noreferrer nofollow">${shown}</a>` : shown}</pre>`;
}

function fieldBlock(field: FormField, id: string, refused: RefusedForm | undefined): Html {
  const { name, title, description, isRequired } = field;
  const problem = refused?.problems.find((one) => one.field === name)?.message;
  const isGroup = field.kind === "list" && field.options !== null;
  const label = html`${line(title)}${isRequired ? " *" : ""}`;
  const hint = description !== null && html`<p class="hint">${lines(description)}</p>`;
  const body =
    field.kind === "boolean"
      ? html`<label class="choice">${input(field, id, refused)} <span>${label}</span></label>${hint}`
      : html`${isGroup ? html`<legend>${label}</legend>` : html`<label for="f${id}">${label}</label>`}${hint}${input(field, id, refused)}`;
  return html`
        <fieldset>${body}${problem !== undefined && html`<p class="problem">${problem}</p>`}</fieldset>`;
}

/** The value that a field shows: the refused answer's, or else the default. */
function shownValue(field: FormField, refused: RefusedForm | undefined): unknown {
  if (refused) return Object.hasOwn(refused.content, field.name) ? refused.content[field.name] : null;
  return field.kind === "other" ? null : field.default;
}

function input(field: FormField, id: string, refused: RefusedForm | undefined): Html {
  const shown = shownValue(field, refused);
  const text = shown === null || shown === undefined ? "" : String(shown);
  const isRequired = field.isRequired && "required";
  switch (field.kind) {
    case "boolean":
      return html`<input type="checkbox" name="${id}" value="on" ${shown === true && "checked"}>`;
    case "number":
      return html`<input type="number" id="f${id}" name="${id}" value="${text}" step="${field.isInteger ? "1" : "any"}"
          ${limit("min", field.minimum)} ${limit("max", field.maximum)} ${isRequired}>`;
    case "list": {
      const chosen: readonly unknown[] = Array.isArray(shown) ? shown : [];
      if (!field.options) return html`<input id="f${id}" name="${id}" value="${text}" ${isRequired}>`;
      return html`${field.options.map((option, i) => checkbox(option, id, i, chosen.includes(option.value)))}`;
    }
    case "text":
      if (field.options) return choice(field.options, id, shown, isRequired);
      if (field.format === null && (field.maxLength ?? LONG) >= LONG)
        return html`<textarea id="f${id}" name="${id}" rows="2" ${limit("minlength", field.minLength)}
          ${limit("maxlength", field.maxLength)} ${isRequired}>${text}</textarea>`;
      return html`<input type="${field.format === null ? "text" : TYPES[field.format]}" id="f${id}" name="${id}" value="${text}"
          ${limit("minlength", field.minLength)} ${limit("maxlength", field.maxLength)} ${isRequired}>`;
    case "other":
      return html`<input id="f${id}" name="${id}" value="${text}" ${isRequired}>`;
  }
}

/** Texts of this length and more get several lines. */
const LONG = 200;

/** A browser has no input for a time with its offset. */
const TYPES = { email: "email", uri: "url", date: "date", "date-time": "text" } as const;

function limit(name: string, value: number | null): Html | false {
  return value !== null && html`${name}="${value}"`;
}

function checkbox({ title, description }: FormOption, id: string, index: number, isChecked: boolean): Html {
  const more = description === null ? "" : ` – ${description}`;
  return html`
          <label class="choice"><input type="checkbox" name="${id}" value="${index}" ${isChecked && "checked"}> ${line(title + more)}</label>`;
}

function choice(
  options: readonly FormOption[],
  id: string,
  shown: unknown,
  isRequired: string | false,
): Html {
  const items = options.map(
    ({ value, title }, i) =>
      html`<option value="${i}" ${value === shown && "selected"}>${visibleLine(title)}</option>`,
  );
  return html`<select id="f${id}" name="${id}" ${isRequired}><option value=""></option>${items}</select>`;
}
