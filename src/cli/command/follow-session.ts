import type { ContentBlock, SessionUpdate } from "@agentclientprotocol/sdk";
import type { Command } from "commander";
import type { LogLine, SessionView } from "../../protocol/rest.ts";
import { isolate, visibleLine } from "../../protocol/visible-text.ts";
import type { ApiClient } from "../gateway/api-client.ts";
import { brief, printable } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand, parseWholeNumber } from "./command-options.ts";
import { Conversation, contentText } from "./conversation.ts";
import { interruptSignal } from "./interrupt-signal.ts";
import { stdout } from "./output.ts";
import { apiOf, resolveSessionId, SESSION_HELP } from "./resolve.ts";

/** `sessions tail` and `sessions watch`: a session's log line by line, or its conversation. */

type LiveOptions = GatewayOptions & { after?: number; follow: boolean };

export function tailCommand(): Command {
  return followCommand("tail", "Follow the log of a session from now on")
    .option("--after <seq>", "start after this event; 0 starts at the beginning", parseWholeNumber)
    .action(async (id: string, options: LiveOptions) => {
      await follow(
        id,
        options,
        ({ log }) => log.lastSeq,
        (line, event) => {
          process.stdout.write(`${options.json ? line : logLine(event)}\n`);
        },
      );
    });
}

export function watchCommand(): Command {
  return followCommand("watch", "Follow the conversation of a session from its last turn on")
    .option("--after <seq>", "start after this event; 0 starts at the beginning", parseWholeNumber)
    .action(async (id: string, options: LiveOptions) => {
      const view = new Conversation(stdout, stdout);
      const waiting: WaitingPrompts = new Map();
      const lastTurn = ({ turns, log }: SessionView) => (turns.recent.at(-1)?.prompt ?? log.lastSeq + 1) - 1;
      await follow(id, options, lastTurn, (line, event) => {
        if (options.json) process.stdout.write(`${line}\n`);
        else show(view, event, waiting);
      });
      view.endLine();
    });
}

function followCommand(name: string, summary: string): Command {
  return gatewayCommand(name, summary)
    .argument("<session>", SESSION_HELP)
    .option("--no-follow", "stop at the current end of the log");
}

async function follow(
  id: string,
  options: LiveOptions,
  start: (session: SessionView) => number,
  each: (line: string, event: LogLine) => void,
): Promise<void> {
  const api: ApiClient = apiOf(options);
  const session = await api.session(await resolveSessionId(api, id));
  const after = options.after ?? start(session);
  const { lastSeq } = session.log;
  if (!options.follow && after >= lastSeq) return;
  for await (const { seq, line } of api.events(session.acpxRecordId, after, interruptSignal())) {
    each(line, JSON.parse(line) as LogLine);
    if (!options.follow && seq >= lastSeq) return;
  }
}

/** An event as one line: sequence number, time, source, content. */
function logLine({ seq, at, source, kind, payload }: LogLine): string {
  const { dim } = stdout.colours;
  const { direction, message } = payload;
  const what = message
    ? `${direction === "out" ? "→" : "←"} ${frameText(message)}`
    : `${kind} ${factText(payload)}`;
  return `${dim(`${seq}  ${at.slice(11, 23)}`)}  ${source.padEnd(7)}  ${what.trimEnd()}`;
}

function frameText({
  id,
  method,
  params,
  result,
  error,
}: NonNullable<LogLine["payload"]["message"]>): string {
  if (error) return `error ${JSON.stringify(id)} ${brief(error.message, 100)}`;
  if (!method) return `result ${JSON.stringify(id)} ${brief(JSON.stringify(result), 80)}`;
  const update = params?.update as SessionUpdate | undefined;
  return update ? `${method} ${update.sessionUpdate} ${brief(updateText(update), 60)}` : brief(method, 100);
}

function updateText(update: SessionUpdate): string {
  if ("content" in update && update.content && !Array.isArray(update.content))
    return contentText(update.content);
  return "title" in update ? (update.title ?? "") : "";
}

function factText(payload: object): string {
  return Object.keys(payload).length === 0 ? "" : printable(brief(JSON.stringify(payload), 100));
}

/** Prompts in the queue, by their event. */
type WaitingPrompts = Map<unknown, ContentBlock[] | undefined>;

/**
 * Shows the events that belong to the conversation. A frame that was stopped does not belong to it; a prompt that waited
 * belongs where its turn begins.
 */
function show(view: Conversation, { seq, kind, payload }: LogLine, waiting: WaitingPrompts): void {
  const { message, stop, having } = payload;
  const { dim, red, yellow } = stdout.colours;
  if (kind === "turn.failed")
    return view.note(red(`the turn failed: ${brief(String(payload.reason ?? ""), 200)}`));
  if (kind === "queue.dequeued") {
    const blocks = waiting.get(payload.seq);
    if (waiting.delete(payload.seq) && payload.dropped === undefined) showPrompt(view, blocks);
    return;
  }
  if (message?.method === "session/prompt") {
    const blocks = message.params?.prompt as ContentBlock[] | undefined;
    if (stop === "held") waiting.set(seq, blocks);
    else if (stop === undefined) showPrompt(view, blocks);
    return;
  }
  if (stop !== undefined) return;
  // An update for clients with some ability repeats what others are told in a plainer form.
  if (message?.method === "session/update" && having !== undefined) return;
  if (message?.method === "session/update") return view.update(message.params?.update as SessionUpdate);
  if (message?.method === "session/request_permission") {
    const { title } = (message.params?.toolCall ?? {}) as { title?: string };
    return view.note(yellow(`? permission requested: ${isolate(visibleLine(String(title ?? ""), 4096))}`));
  }
  if (message?.method === "elicitation/create") {
    const asked = isolate(visibleLine(String(message.params?.message ?? ""), 4096));
    return view.note(yellow(`? the agent asks: ${asked}`));
  }
  const stopReason = (message?.result as { stopReason?: string } | undefined)?.stopReason;
  if (stopReason) view.note(dim(`— ${brief(stopReason)}`));
}

function showPrompt(view: Conversation, blocks: readonly ContentBlock[] = []): void {
  view.prompt(blocks.map(contentText).join("\n"));
}
