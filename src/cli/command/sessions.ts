import { createWriteStream, openAsBlob } from "node:fs";
import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { blob } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { Command, Option } from "commander";
import { MetaKey } from "../../protocol/extensions.ts";
import type { SessionSummary, SessionView } from "../../protocol/rest.ts";
import { ARCHIVE_FILTER, type ArchiveFilter } from "../../protocol/session-change.ts";
import { isolate, visibleLine } from "../../protocol/visible-text.ts";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import { ago, brief, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand, parseWholeNumber } from "./command-options.ts";
import { tailCommand, watchCommand } from "./follow-session.ts";
import { print, printNote, stdout } from "./output.ts";
import { apiOf, resolveSessionId, SESSION_HELP, targetOf } from "./resolve.ts";

export function sessionsCommand(): Command {
  return new Command("sessions")
    .description("List, inspect, follow, export, import and end sessions")
    .addCommand(ls())
    .addCommand(show())
    .addCommand(tailCommand())
    .addCommand(watchCommand())
    .addCommand(exporting())
    .addCommand(importing())
    .addCommand(rename())
    .addCommand(
      archiving("archive", "Leave sessions out of lists; their work ends, their history stays", true),
    )
    .addCommand(archiving("unarchive", "List sessions again", false))
    .addCommand(ending("close", "Close sessions and keep their history", "session/close"))
    .addCommand(ending("rm", "Delete sessions and their history", "session/delete"));
}

function ls(): Command {
  return gatewayCommand("ls", "List sessions, most recently used first")
    .option("--limit <n>", "maximum number of sessions", parseWholeNumber, 50)
    .addOption(
      new Option("--archived <which>", "whether to list archived sessions").choices(ARCHIVE_FILTER.options),
    )
    .action(async (options: GatewayOptions & { limit: number; archived?: ArchiveFilter }) => {
      const { workspace, agent, archived, ...rest } = options;
      const page = await apiOf(rest).sessions(Math.min(Math.max(options.limit, 1), 200), undefined, archived);
      const sessions = page.sessions.filter(
        (session) =>
          (workspace === undefined || session.workspace === workspace) &&
          (agent === undefined || session.agent === agent),
      );
      print(options, { ...page, sessions }, () => list(sessions));
    });
}

function list(sessions: readonly SessionSummary[]): string {
  if (sessions.length === 0) return "no sessions";
  const rows = sessions.map(({ sessionId, state, workspace, agent, updatedAt, title }) => [
    sessionId,
    state,
    ago(updatedAt),
    brief(workspace, 20),
    brief(agent, 20),
    brief(title),
  ]);
  return table(["SESSION", "STATE", "USED", "WORKSPACE", "AGENT", "TITLE"], rows, stdout);
}

function show(): Command {
  return gatewayCommand(
    "show",
    "Show a session: state, recent turns, pending permission requests and questions",
  )
    .argument("<session>", SESSION_HELP)
    .action(async (id: string, options: GatewayOptions) => {
      const api = apiOf(options);
      const session = await api.session(await resolveSessionId(api, id));
      print(options, session, () => describe(session));
    });
}

function describe(session: SessionView): string {
  const { bold, dim, red } = stdout.colours;
  const { acpxRecordId, agent, workspace, lifecycle, turns, host, queue } = session;
  const fields: [string, string][] = [
    ["session", acpxRecordId],
    ["title", brief(session.title, 100)],
    ["state", `${session.state}, agent ${session.agentStatus}${session.turn ? ", a turn is running" : ""}`],
    ["workspace", `${workspace.name ?? ""}  ${workspace.cwd ?? ""}`],
    [
      "agent",
      `${agent.name ?? ""}${host ? ` on ${host.name}${host.connected ? "" : " (not connected)"}` : ""}`,
    ],
    ["used", `${ago(lifecycle.lastUsedAt)} ago, created ${ago(lifecycle.createdAt)} ago`],
    ["log", `${session.log.lastSeq} events`],
    ["queue", queue.length > 0 ? `${queue.length} waiting` : ""],
  ];
  const lines = fields
    .filter(([, value]) => value !== "")
    .map(([label, value]) => `${dim(label.padEnd(10))} ${value}`);
  for (const { seq, title, kind } of session.pendingPermissions)
    lines.push(
      red(
        `permission ${acpxRecordId}:${seq}  ${isolate(visibleLine(title ?? "", 100))} ${kind ? `(${visibleLine(kind)})` : ""}`.trimEnd(),
      ),
    );
  for (const { seq, message } of session.pendingQuestions ?? [])
    lines.push(red(`question ${acpxRecordId}:${seq}  ${isolate(visibleLine(message ?? "", 100))}`.trimEnd()));
  if (turns.recent.length > 0) lines.push("", bold(`last turns of ${turns.total}`));
  for (const turn of turns.recent.slice(-5)) {
    const ended = turn.stopReason ?? turn.reason ?? turn.status;
    lines.push(
      `> ${brief(turn.promptPreview, 90)}`,
      dim(`  ${brief(turn.replyPreview, 90)} [${brief(ended)}]`),
    );
  }
  return lines.join("\n");
}

function exporting(): Command {
  return gatewayCommand("export", "Write a session to a file or stdout")
    .argument("<session>", SESSION_HELP)
    .addOption(
      new Option("--format <format>", "tar archive for `import`, transcript, or log")
        .choices(["acpx", "markdown", "ndjson"])
        .default("acpx"),
    )
    .option("-o, --output <file>", "output file; `-` is stdout, which is the default unless it is a terminal")
    .action(async (id: string, options: GatewayOptions & { format: string; output?: string }) => {
      const api = apiOf(options);
      const session = await resolveSessionId(api, id);
      const { body } = await api.export(session, options.format);
      const extension = { acpx: "tar", markdown: "md" }[options.format] ?? options.format;
      const usual = stdout.isTTY || options.json ? `acp-session-${session}.${extension}` : "-";
      const file = options.output ?? usual;
      const source = Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]);
      if (file === "-") return pipeline(source, process.stdout, { end: false });
      await pipeline(source, createWriteStream(file)).catch((error: unknown) => {
        throw new CliError(`the export failed: ${describeError(error)}`, EXIT.error);
      });
      const { size } = await stat(file);
      print(options, { sessionId: session, file, bytes: size }, () => `${file}, ${size} bytes`);
    });
}

function importing(): Command {
  return gatewayCommand("import", "Import an exported session")
    .argument("<file>", "the tar archive; `-` is stdin")
    .option("--new", "import a copy under a new id")
    .action(async (file: string, options: GatewayOptions & { new?: boolean }) => {
      const { workspace, agent } = targetOf(options);
      const archive = file === "-" ? await blob(process.stdin) : await openArchive(file);
      const query = {
        ...(options.new && { as: "new" }),
        ...(workspace !== undefined && { workspace }),
        ...(agent !== undefined && { agent }),
      };
      const imported = await apiOf(options).import(archive as Blob, query);
      for (const warning of imported.warnings ?? [])
        process.stderr.write(`acp-edge: ${visibleLine(warning, 1000)}\n`);
      print(options, imported, () => imported.sessionId);
    });
}

async function openArchive(file: string) {
  try {
    // `openAsBlob` does not fail for a missing file.
    await stat(file);
    return await openAsBlob(file);
  } catch (error) {
    throw new CliError(`${file} cannot be read: ${describeError(error)}`, EXIT.usage);
  }
}

function rename(): Command {
  return gatewayCommand("rename", "Give a session a title, in place of the agent's")
    .argument("<session>", SESSION_HELP)
    .argument("<title>", "the new title")
    .action(async (text: string, title: string, options: GatewayOptions) => {
      const api = apiOf(options);
      const sessionId = await resolveSessionId(api, text);
      const changed = await api.changeSession(sessionId, { title });
      print(options, { sessionId, ...changed }, () => visibleLine(changed.title ?? ""));
    });
}

function archiving(name: string, summary: string, archived: boolean): Command {
  return gatewayCommand(name, summary)
    .argument("<session...>", SESSION_HELP)
    .action(async (ids: string[], options: GatewayOptions) => {
      const api = apiOf(options);
      const done: string[] = [];
      for (const text of ids) {
        const id = await resolveSessionId(api, text);
        await api.changeSession(id, { archived });
        done.push(id);
        if (!options.json) printNote(`${name}d ${id}`);
      }
      if (options.json) print(options, { sessions: done }, () => "");
    });
}

/** Closing and deleting are ACP methods, so the command does exactly what an editor would do. */
function ending(name: string, summary: string, method: "session/close" | "session/delete"): Command {
  return gatewayCommand(name, summary)
    .argument("<session...>", SESSION_HELP)
    .action(async (ids: string[], options: GatewayOptions) => {
      const api = apiOf(options);
      const done: string[] = [];
      const { connectAcp, quietClient } = await import("../gateway/acp-client.ts");
      const connection = await connectAcp(targetOf(options), quietClient());
      try {
        for (const text of ids) {
          const id = await resolveSessionId(api, text);
          // In ACP, deleting an unknown session succeeds, but a user who names a session wants to know.
          await api.session(id);
          // A person who names a session means the session, whoever else uses it.
          const meant = method === "session/close" && { _meta: { [MetaKey.closeMeans]: "end" } };
          await connection.agent.request(method, { sessionId: id, ...meant });
          done.push(id);
          if (!options.json) printNote(`${name === "rm" ? "deleted" : "closed"} ${id}`);
        }
      } finally {
        connection.close();
      }
      if (options.json) print(options, { sessions: done }, () => "");
    });
}
