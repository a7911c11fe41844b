import { Command } from "commander";
import type { AnswerLinks, PendingPermission } from "../../protocol/rest.ts";
import { isolate, visibleLine } from "../../protocol/visible-text.ts";
import { CliError, EXIT } from "../cli-error.ts";
import type { ApiClient } from "../gateway/api-client.ts";
import { ago, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { parseDuration } from "./duration.ts";
import { print, stderr, stdout } from "./output.ts";
import { permissionText } from "./permission-text.ts";
import { apiOf } from "./resolve.ts";

export function permissionsCommand(): Command {
  return new Command("permissions")
    .description("List and answer permission requests of agents")
    .addCommand(ls())
    .addCommand(show())
    .addCommand(answering("allow", "Allow a permission request"))
    .addCommand(answering("deny", "Deny a permission request"))
    .addCommand(link());
}

function ls(): Command {
  return gatewayCommand("ls", "List pending permission requests, oldest first").action(
    async (options: GatewayOptions) => {
      const page = await apiOf(options).permissions();
      print(options, page, () => list(page.permissions));
    },
  );
}

function list(permissions: readonly PendingPermission[]): string {
  if (permissions.length === 0) return "no permission request is pending";
  const rows = permissions.map(({ id, requestedAt, kind, title, options }) => [
    id,
    ago(requestedAt),
    visibleLine(kind ?? "", 12),
    (options ?? []).map(({ optionId }) => visibleLine(optionId, 20)).join(","),
    isolate(visibleLine(title ?? "", 100)),
  ]);
  return table(["PERMISSION", "SINCE", "KIND", "OPTIONS", "TITLE"], rows, stdout);
}

function show(): Command {
  return gatewayCommand("show", "Show all that a permission request asks for")
    .argument(...ARGUMENT)
    .action(async (text: string, options: GatewayOptions) => {
      const api = apiOf(options);
      const request = await api.permission((await find(api, text)).id);
      print(options, request, () => permissionText(request.details, stdout));
    });
}

const ARGUMENT = [
  "<permission>",
  "id of the request, as listed by `permissions ls`, or of its session if only one is pending there",
] as const;

function link(): Command {
  return gatewayCommand("link", "Create a link for each answer; anyone with a link can answer with it, once")
    .argument(...ARGUMENT)
    .option("--expires <duration>", "how long the links are valid: 30m, 12h, 7d", "1d")
    .action(async (text: string, options: GatewayOptions & { expires: string }) => {
      const api = apiOf(options);
      const { id } = await find(api, text);
      const made = await api.answerLinks(id, parseDuration(options.expires));
      print(options, made, () => linkList(made));
    });
}

/** Links are long and meant to be copied, so they are the last column. */
function linkList({ links }: AnswerLinks): string {
  const rows = links.map(({ optionId, name, url }) => [visibleLine(name ?? optionId, 30), url]);
  return table(["ANSWER", "LINK"], rows, stdout);
}

type AnswerOptions = GatewayOptions & { option?: string; always?: boolean; yes?: boolean };

function answering(name: "allow" | "deny", summary: string): Command {
  return gatewayCommand(name, summary)
    .argument(...ARGUMENT)
    .option("--always", "choose the option that remembers the answer, if the agent offers one")
    .option("--option <id>", "choose exactly this option of the request")
    .option("--yes", "do not ask again on a terminal")
    .action(async (text: string, options: AnswerOptions) => {
      const api = apiOf(options);
      const permission = await find(api, text);
      const optionId = options.option ?? chooseOption(name, options.always === true, permission);
      const kind = permission.options?.find((option) => option.optionId === optionId)?.kind;
      if (!kind?.startsWith("reject") && !options.yes) await confirmOnTerminal(api, permission.id, options);
      const answer = await api.answer(permission.id, optionId);
      const title = visibleLine(permission.title ?? permission.id);
      print(options, answer, () => `${visibleLine(optionId)}: ${isolate(title)}`);
    });
}

/** A person at a terminal sees all that they are about to allow, and says so. A script has decided already. */
async function confirmOnTerminal(api: ApiClient, id: string, options: GatewayOptions): Promise<void> {
  if (options.json || process.stdin.isTTY !== true || !stderr.isTTY) return;
  const { details } = await api.permission(id);
  process.stderr.write(`${permissionText(details, stderr)}\n`);
  const { confirmAllowing } = await import("./permission-prompt.ts");
  if (!(await confirmAllowing("Allow this?"))) throw new CliError("nothing was answered", EXIT.interrupted);
}

/** The index may lag behind, so a complete id is looked up in its session instead. */
async function find(
  api: ApiClient,
  text: string,
): Promise<Pick<PendingPermission, "id" | "title" | "options">> {
  const { permissions } = await api.permissions();
  const found = permissions.filter(({ id, sessionId }) => id === text || sessionId === text);
  if (found.length === 1) return found[0] as PendingPermission;
  if (found.length > 1)
    throw new CliError(
      `${found.length} permission requests are pending in this session: name one of them`,
      EXIT.usage,
    );
  const [sessionId, seq] = text.split(":");
  if (sessionId === undefined || seq === undefined)
    throw new CliError(`no permission request ${text} is pending`, EXIT.notFound);
  const { pendingPermissions } = await api.session(sessionId);
  const pending = pendingPermissions.find((one) => one.seq === Number(seq));
  if (!pending) throw new CliError(`no permission request ${text} is pending`, EXIT.notFound);
  return { id: text, title: pending.title, options: pending.options ?? null };
}

/** Chooses an option that applies once, unless `always` is set, so that nobody grants more than intended. */
export function chooseOption(
  name: "allow" | "deny",
  always: boolean,
  { options }: Pick<PendingPermission, "options">,
): string {
  const verb = name === "allow" ? "allow" : "reject";
  const kinds = always
    ? [`${verb}_always`]
    : name === "allow"
      ? ["allow_once"]
      : ["reject_once", "reject_always"];
  const option = kinds.flatMap((kind) => options?.find((offer) => offer.kind === kind) ?? [])[0];
  if (option) return option.optionId;
  const offered = (options ?? []).map(({ optionId, kind }) => `${optionId} (${kind})`).join(", ");
  throw new CliError(
    `the agent offers no ${kinds[0]} option: choose one with --option${offered ? ` from ${offered}` : ""}`,
    EXIT.usage,
  );
}
