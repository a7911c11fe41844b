import { Command } from "commander";
import type { QuestionAnswer } from "../../protocol/question.ts";
import { valueFromTexts } from "../../protocol/question-answer.ts";
import { formFields } from "../../protocol/question-form.ts";
import type { PendingQuestion, QuestionRequest } from "../../protocol/question-rest.ts";
import { isolate, visibleLine } from "../../protocol/visible-text.ts";
import { CliError, EXIT } from "../cli-error.ts";
import type { ApiClient } from "../gateway/api-client.ts";
import { ago, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { parseDuration } from "./duration.ts";
import { print, stderr, stdout } from "./output.ts";
import { questionText } from "./question-text.ts";
import { apiOf } from "./resolve.ts";

export function questionsCommand(): Command {
  return new Command("questions")
    .description("List and answer questions of agents")
    .addCommand(ls())
    .addCommand(show())
    .addCommand(answer())
    .addCommand(link());
}

function ls(): Command {
  return gatewayCommand("ls", "List pending questions, oldest first").action(
    async (options: GatewayOptions) => {
      const page = await apiOf(options).questions();
      print(options, page, () => list(page.questions));
    },
  );
}

function list(questions: readonly PendingQuestion[]): string {
  if (questions.length === 0) return "no question is pending";
  const rows = questions.map(({ id, requestedAt, mode, message }) => [
    id,
    ago(requestedAt),
    mode,
    isolate(visibleLine(message ?? "", 100)),
  ]);
  return table(["QUESTION", "SINCE", "MODE", "MESSAGE"], rows, stdout);
}

const ARGUMENT = [
  "<question>",
  "id of the question, as listed by `questions ls`, or of its session if only one is pending there",
] as const;

function show(): Command {
  return gatewayCommand("show", "Show a question with its form")
    .argument(...ARGUMENT)
    .action(async (text: string, options: GatewayOptions) => {
      const question = await find(apiOf(options), text);
      print(options, question, () => questionText(question, stdout));
    });
}

type AnswerOptions = GatewayOptions & { set: string[]; accept?: boolean; decline?: boolean };

function answer(): Command {
  return gatewayCommand("answer", "Answer a question: on the terminal, or with --set, --accept or --decline")
    .argument(...ARGUMENT)
    .option(
      "--set <field=value>",
      "value of a field of the form; repeat the option for more fields, or for more values of a list",
      (one: string, all: string[]) => [...all, one],
      [] as string[],
    )
    .option("--accept", "accept without values")
    .option("--decline", "decline to answer")
    .action(async (text: string, options: AnswerOptions) => {
      const api = apiOf(options);
      const question = await find(api, text);
      const given = givenAnswer(options, question) ?? (await promptedAnswer(options, question));
      const answered = await api.answerQuestion(question.id, given);
      print(options, answered, () => `${given.action}: ${isolate(visibleLine(question.message, 100))}`);
    });
}

/** The answer that the options give; undefined if they give none. */
function givenAnswer(
  { set, accept, decline }: Pick<AnswerOptions, "set" | "accept" | "decline">,
  { mode, requestedSchema }: Pick<QuestionRequest, "mode" | "requestedSchema">,
): QuestionAnswer | undefined {
  if (decline) {
    if (accept || set.length > 0) throw new CliError("--decline excludes --accept and --set", EXIT.usage);
    return { action: "decline" };
  }
  if (set.length === 0 && !accept) return undefined;
  if (mode === "url" && set.length === 0) return { action: "accept" };
  const texts = new Map<string, string[]>();
  for (const one of set) {
    const at = one.indexOf("=");
    if (at < 1) throw new CliError(`${one} is not of the form field=value`, EXIT.usage);
    const name = one.slice(0, at);
    texts.set(name, [...(texts.get(name) ?? []), one.slice(at + 1)]);
  }
  const fields = new Map(formFields(requestedSchema).map((field) => [field.name, field]));
  const values = [...texts].map(([name, given]) => {
    const field = fields.get(name);
    // The gateway names the fields that the form lacks.
    return [name, field ? valueFromTexts(field, given) : given[0]] as const;
  });
  return { action: "accept", content: Object.fromEntries(values) };
}

async function promptedAnswer(options: GatewayOptions, question: QuestionRequest): Promise<QuestionAnswer> {
  if (options.json || process.stdin.isTTY !== true || !stderr.isTTY)
    throw new CliError("give the answer with --set field=value, --accept or --decline", EXIT.usage);
  const { promptForAnswer } = await import("./question-prompt.ts");
  const given = await promptForAnswer(question, new AbortController().signal);
  if (given === undefined || typeof given === "symbol")
    throw new CliError("nothing was answered", EXIT.interrupted);
  return given;
}

function link(): Command {
  return gatewayCommand("link", "Create a link to the form; anyone with the link can answer, once")
    .argument(...ARGUMENT)
    .option("--expires <duration>", "how long the link is valid: 30m, 12h, 7d", "1d")
    .action(async (text: string, options: GatewayOptions & { expires: string }) => {
      const api = apiOf(options);
      const { id } = await find(api, text);
      const made = await api.questionLink(id, parseDuration(options.expires));
      print(options, made, () => made.url);
    });
}

/** The index may lag behind, so a complete id is looked up in its session. */
async function find(api: ApiClient, text: string): Promise<QuestionRequest> {
  if (text.includes(":")) return api.question(text);
  const { questions } = await api.questions();
  const [found, ...more] = questions.filter(({ sessionId }) => sessionId === text);
  if (!found) throw new CliError(`no question ${text} is pending`, EXIT.notFound);
  if (more.length > 0)
    throw new CliError(
      `${more.length + 1} questions are pending in this session: name one of them`,
      EXIT.usage,
    );
  return api.question(found.id);
}
