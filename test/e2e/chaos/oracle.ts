/**
 * Compares what everybody saw: the agents' own journals, the log, every client's stream, the live readers and the
 * receiver of webhooks. Each function returns the violations that it found, as sentences.
 */
import type { LogEvent } from "../client.ts";
import type { Data } from "../webhook-receiver.ts";
import { type AgentJournal, markOf, type Script, tokenOf } from "./journal.ts";
import type { PromptEnd, SentAnswers } from "./peer.ts";

/** The logged events around a violation that the report shows. */
const AROUND = 4;

/** Everything that is known about one session after the run. */
export type Evidence = {
  sessionId: string;
  log: readonly LogEvent[];
  /** The lines of the log, one per event. */
  lines: readonly string[];
  prompts: readonly { script: Script; end: PromptEnd | undefined }[];
  /** What each client saw, by the client's name. */
  seen: ReadonlyMap<string, readonly string[]>;
  /** What each live reader saw, by the reader's name. */
  read: ReadonlyMap<string, readonly string[]>;
};

export type Agents = {
  journals: readonly AgentJournal[];
  /** Whether the process was killed, alone or with its host: only then may its turn be lost. */
  wasKilled: (journal: AgentJournal) => boolean;
  /** Whether anything was killed that may have cost a turn before the turn reached an agent. */
  hasKills: boolean;
};

type Turn = { mark: string; turnId: string; started: number; ends: { kind: string; seq: number }[] };

export function checkSession(evidence: Evidence, agents: Agents, answers: SentAnswers): string[] {
  const { sessionId } = evidence;
  const found = [
    ...checkNumbers(evidence),
    ...checkUpdates(evidence, agents),
    ...checkTurns(evidence, agents),
    ...checkPermissions(evidence, agents, answers),
    ...checkReaders(evidence),
  ];
  return found.map((violation) => `session ${sessionId}: ${violation}`);
}

function checkNumbers({ log }: Evidence): string[] {
  const wrong = log.findIndex(({ seq }, i) => seq !== i + 1);
  return wrong < 0 ? [] : [`event ${wrong + 1} of the log has the number ${log[wrong]?.seq}`];
}

/** Every update that an agent wrote is in the log, once and in order; of a killed agent the first ones. */
function checkUpdates({ log, prompts }: Evidence, { journals, wasKilled }: Agents): string[] {
  const marks = new Set(prompts.map(({ script }) => script.mark));
  const logged = Map.groupBy(tokensOf(log), markOf);
  return journals.flatMap((journal) => {
    const written = Map.groupBy(journal.updates, markOf);
    return [...written].flatMap(([mark, tokens]) => {
      if (!marks.has(mark)) return [];
      const recorded = logged.get(mark) ?? [];
      const at = tokens.findIndex((token, i) => recorded[i] !== token);
      if (recorded.length > tokens.length)
        return [`the log has ${recorded.length} updates of ${mark}, its agent wrote ${tokens.length}`];
      if (at < 0 || (wasKilled(journal) && at === recorded.length)) return [];
      return [
        `the agent ${journal.host}/${journal.pid} wrote ${tokens[at]}, and the log has ${recorded[at] ?? "nothing more"} in its place${around(log, recorded[at - 1])}`,
      ];
    });
  });
}

function checkTurns({ log, prompts }: Evidence, agents: Agents): string[] {
  const { journals, wasKilled, hasKills } = agents;
  const turns = Map.groupBy(turnsOf(log), ({ mark }) => mark);
  return prompts.flatMap(({ script: { mark, count }, end }) => {
    const [turn, ...more] = turns.get(mark) ?? [];
    if (!end) return [`the prompt ${mark} was never answered${aroundTurn(log, turn)}`];
    const given = journals.filter((journal) => journal.prompts.includes(mark));
    const times = journals.flatMap((journal) => journal.prompts.filter((one) => one === mark)).length;
    if (times > 1) return [`the prompt ${mark} was given to an agent ${times} times`];
    if (!turn)
      return [`the prompt ${mark} has no turn in the log, its client was told ${JSON.stringify(end)}`];
    if (more.length > 0) return [`the prompt ${mark} has ${more.length + 1} turns in the log`];
    const [last] = turn.ends;
    if (turn.ends.length !== 1 || !last)
      return [`the turn of ${mark} ended ${turn.ends.length} times${aroundTurn(log, turn)}`];
    const isCompleted = last.kind === "turn.completed";
    if (isCompleted !== (end.error === undefined))
      return [`the turn of ${mark} is ${last.kind}, and its client was told ${JSON.stringify(end)}`];
    const updates = tokensOf(log).filter((token) => markOf(token) === mark).length;
    if (isCompleted && updates !== count)
      return [`the completed turn of ${mark} has ${updates} updates of ${count}`];
    if (isCompleted) return [];
    const isExcused = given.length > 0 ? given.some(wasKilled) : hasKills;
    return isExcused
      ? []
      : [`the turn of ${mark} was lost though its agent lived (${end.error})${aroundTurn(log, turn)}`];
  });
}

/** Every permission request has one answer that a client sent, and the agent got that answer once. */
function checkPermissions(
  { log, sessionId }: Evidence,
  { journals, wasKilled }: Agents,
  sent: SentAnswers,
): string[] {
  const requests = log.filter(({ kind }) => kind === "permission.requested");
  const responses = Map.groupBy(
    log.filter(({ kind }) => kind === "permission.responded"),
    ({ payload }) => payload.request as number,
  );
  return requests.flatMap(({ payload }) => {
    const request = payload.request as number;
    const { toolCallId: mark } = payload.toolCall as { toolCallId: string };
    const journal = journals.find(({ permissions }) => permissions.has(mark));
    const got = journal?.permissions.get(mark) ?? [];
    const [answer, ...more] = responses.get(request) ?? [];
    const isKilled = journal !== undefined && wasKilled(journal);
    if (!answer || more.length > 0)
      return isKilled && !answer
        ? []
        : [`the permission request ${request} (${mark}) has ${more.length + (answer ? 1 : 0)} answers`];
    const outcome = answer.payload.outcome as { outcome: string; optionId?: string };
    if (isKilled && got.length === 0) return [];
    if (got.length !== 1 || JSON.stringify(got[0]) !== JSON.stringify(outcome))
      return [
        `the agent got ${JSON.stringify(got)} for the permission request ${request} (${mark}), the log has ${JSON.stringify(outcome)}${around(log, undefined, request)}`,
      ];
    const given = sent.get(`${sessionId}:${request}`) ?? [];
    return given.includes(outcome.optionId ?? "")
      ? []
      : [`nobody gave the answer ${JSON.stringify(outcome)} to the permission request ${request} (${mark})`];
  });
}

function checkReaders({ log, lines, seen, read }: Evidence): string[] {
  const logged = tokensOf(log);
  const clients = [...seen].flatMap(([name, tokens]) => {
    const at = logged.findIndex((token, i) => tokens[i] !== token);
    if (at < 0 && tokens.length === logged.length) return [];
    const place = at < 0 ? logged.length : at;
    return [
      `${name} saw ${tokens[place] ?? "nothing more"} in place of ${logged[place] ?? "nothing"}${around(log, logged[place])}`,
    ];
  });
  const readers = [...read].flatMap(([name, own]) => {
    const at = lines.findIndex((line, i) => own[i] !== line);
    if (at < 0 && own.length === lines.length) return [];
    const place = at < 0 ? lines.length : at;
    return [
      `${name} read ${clip(own[place])} as event ${place + 1}, the log has ${clip(lines[place])}${around(log, undefined, place + 1)}`,
    ];
  });
  return [...clients, ...readers];
}

/** Every wanted message was delivered, under one id. */
export function checkWebhooks(
  logs: readonly Evidence[],
  deliveries: readonly { id: string; data: Data }[],
): string[] {
  const idsByTurn = Map.groupBy(deliveries, ({ data }) => String(data.turnId));
  return logs.flatMap(({ log, sessionId }) =>
    turnsOf(log).flatMap(({ turnId, mark }) => {
      const ids = new Set(idsByTurn.get(turnId)?.map(({ id }) => id));
      return ids.size === 1
        ? []
        : [`session ${sessionId}: the end of the turn of ${mark} has ${ids.size} messages to the webhook`];
    }),
  );
}

/** The updates of the scripted agent in the log. */
export function tokensOf(log: readonly LogEvent[]): string[] {
  return log.flatMap(({ source, payload }) =>
    source === "agent" ? (tokenOf(payload.message?.params?.update) ?? []) : [],
  );
}

function turnsOf(log: readonly LogEvent[]): Turn[] {
  const turns = new Map<number, Turn>();
  for (const { seq, kind, payload } of log) {
    if (!kind.startsWith("turn.")) continue;
    const prompt = payload.prompt as number;
    const turn = turns.get(prompt) ?? {
      mark: markAt(log, prompt),
      turnId: String(payload.turnId),
      started: prompt,
      ends: [],
    };
    turns.set(prompt, turn);
    if (ENDS.has(kind)) turn.ends.push({ kind, seq });
  }
  return [...turns.values()];
}

const ENDS = new Set(["turn.completed", "turn.failed", "turn.cancelled"]);

function markAt(log: readonly LogEvent[], seq: number): string {
  const params = log[seq - 1]?.payload.message?.params as { prompt?: { text: string }[] } | undefined;
  return (JSON.parse(params?.prompt?.[0]?.text ?? "{}") as Partial<Script>).mark ?? "";
}

function aroundTurn(log: readonly LogEvent[], turn: Turn | undefined): string {
  const seq = turn?.ends.at(-1)?.seq ?? turn?.started;
  return seq === undefined ? "" : around(log, undefined, seq);
}

/** The events around an update, or around an event, for the report. */
function around(log: readonly LogEvent[], token: string | undefined, seq?: number): string {
  const isIt = ({ payload }: LogEvent) => tokenOf(payload.message?.params?.update) === token;
  const at = seq === undefined ? log.findIndex(isIt) : seq - 1;
  if (at < 0) return "";
  const events = log.slice(Math.max(0, at - AROUND), at + AROUND);
  return `; around it:\n${events.map((event) => `      ${clip(describe(event))}`).join("\n")}`;
}

function describe({ seq, source, kind, payload }: LogEvent): string {
  return `${seq} ${source} ${kind} ${tokenOf(payload.message?.params?.update) ?? JSON.stringify(payload)}`;
}

function clip(text: string | undefined): string {
  if (text === undefined || text === "") return "nothing";
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
