/** One run: work, faults, healing, and the verdict of the oracle. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Random, randomFrom } from "../../fixtures/random.ts";
import type { LogEvent } from "../client.ts";
import { Receiver } from "../webhook-receiver.ts";
import { BridgePeer } from "./bridge-peer.ts";
import { changeSnapshots, Faults, type Happened } from "./faults.ts";
import { HttpPeer } from "./http-peer.ts";
import { readJournals, type Script } from "./journal.ts";
import { LogReader } from "./log-reader.ts";
import { type Agents, checkSession, checkWebhooks, type Evidence, tokensOf } from "./oracle.ts";
import type { Peer, PromptEnd, SentAnswers } from "./peer.ts";
import { SocketPeer } from "./socket-peer.ts";
import { Stage } from "./stage.ts";

export type RunOptions = {
  seed: number;
  faults: number;
  durationMs: number;
  /** Hosts and agents are killed too, which costs turns. */
  isRough: boolean;
  sharedFiles: boolean;
  /** A host that is away for less than this time costs no turn. */
  graceMs: number;
  /** How much more often processes are killed than is usual. */
  killFactor: number;
  /** Sessions of each of the three kinds of clients. */
  sessionsEach: number;
};

export type Verdict = {
  violations: string[];
  evidence: Evidence[];
  agents: Agents;
  answers: SentAnswers;
  schedule: Happened[];
  startedAt: number;
  counts: {
    faults: number;
    turns: number;
    lost: number;
    updates: number;
    permissions: number;
    events: number;
  };
};

/** Pause between two lines of progress. */
const PROGRESS_MS = 10_000;

/** After healing, everything that takes longer never happens. */
const PATIENCE_MS = 60_000;

type Work = {
  owner: Peer;
  peers: Peer[];
  readers: LogReader[];
  prompts: { script: Script; end: PromptEnd | undefined }[];
};

/** The seed decides the kind of run as well as its faults. */
export function optionsFor(seed: number, minutes: number): RunOptions {
  const random = randomFrom(seed);
  const isRough = random.chance(0.6);
  return {
    seed,
    durationMs: minutes * 60_000,
    faults: Math.ceil(minutes * FAULTS_PER_MINUTE),
    isRough,
    sharedFiles: random.chance(0.5),
    graceMs: isRough && random.chance(0.5) ? 4_000 : 30_000,
    killFactor: random.pick([1, 1, 3]),
    sessionsEach: 1,
  };
}

/** A small machine keeps up with this many. */
const FAULTS_PER_MINUTE = 540;

export async function runChaos(options: RunOptions): Promise<Verdict> {
  const { seed, faults: count, durationMs, sharedFiles, graceMs } = options;
  const random = randomFrom(seed);
  await using stage = await Stage.build({
    hosts: ["a", "b", "c"],
    settings: { sharedFiles, hostGraceMs: graceMs },
  });
  await using receiver = await Receiver.start();
  await receiver.hook(stage.asGateway, "/hook", { events: ["turn.ended"] });
  const answers: SentAnswers = new Map();
  const works = await openSessions(stage, options, answers);
  const startedAt = Date.now();
  const bridges = works.flatMap(({ owner }) => (owner instanceof BridgePeer ? [owner.pid] : []));
  const faults = new Faults({ stage, random, bridges }, options);

  let isOver = false;
  let phase = "faults";
  const progress = () => {
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    process.stderr.write(`${seconds} s: ${phase}, ${faults.schedule.length} of ${count} faults\n`);
  };
  using ticking = new DisposableStack();
  const timer = process.env.CHAOS_PROGRESS === "1" ? setInterval(progress, PROGRESS_MS) : undefined;
  ticking.defer(() => clearInterval(timer));
  const working = works.map((work, i) => keepPrompting(work, randomFrom(seed + i + 1), () => isOver));
  await faults.run(count, durationMs);
  isOver = true;
  phase = "healing";
  stage.heal();
  await Promise.race([Promise.all(working), sleep(PATIENCE_MS)]);

  phase = "checks";
  const violations: string[] = [];
  const evidence = await settled(stage, works);
  const journals = readJournals(stage.journals);
  const agents: Agents = {
    journals,
    wasKilled: ({ pid, host }) =>
      stage.killedAgents.has(pid) || stage.killedHosts.has(host) || stage.lostHosts.has(host),
    hasKills: stage.killedAgents.size + stage.killedHosts.size + stage.lostHosts.size > 0,
  };
  for (const one of evidence) violations.push(...checkSession(one, agents, answers));
  for (const work of works) violations.push(...complaints(work));
  const deliveries = () => receiver.deliveries.map(({ id, message }) => ({ id, data: message.data }));
  await until(() => checkWebhooks(evidence, deliveries()).length === 0);
  violations.push(...checkWebhooks(evidence, deliveries()));
  await Promise.all(works.flatMap(({ peers, readers }) => [...peers, ...readers].map((one) => one.close())));
  await stage.stopHosts();
  violations.push(...(await checkProjections(stage, evidence)));
  await stage.stop();
  await until(() => stage.survivors().length === 0, 10_000);
  for (const { pid, command } of stage.survivors())
    violations.push(`the process ${pid} is left over: ${command}`);

  const turns = evidence.flatMap(({ prompts }) => prompts);
  return {
    violations,
    evidence,
    agents,
    answers,
    schedule: faults.schedule,
    startedAt,
    counts: {
      faults: faults.schedule.length,
      turns: turns.length,
      lost: turns.filter(({ end }) => end?.error !== undefined).length,
      updates: journals.reduce((sum, { updates }) => sum + updates.length, 0),
      permissions: journals.reduce((sum, { permissions }) => sum + permissions.size, 0),
      events: evidence.reduce((sum, { log }) => sum + log.length, 0),
    },
  };
}

async function openSessions(
  stage: Stage,
  { seed, sessionsEach }: RunOptions,
  answers: SentAnswers,
): Promise<Work[]> {
  const works: Work[] = [];
  const readerOf = new Map<string, LogReader>();
  const socket = async (name: string, role = "") => {
    const network = await stage.network(name);
    const url = `${network.url(stage.gateway.wsUrl)}?token=${stage.token}&workspace=${stage.workspace}${role}`;
    const seqOf = async (session: string, token: string) => (await readerOf.get(session)?.seqOf(token)) ?? 0;
    return new SocketPeer({ name, url, answers, random: randomFrom(seed + name.length), seqOf });
  };
  for (let i = 0; i < sessionsEach; i += 1) {
    const bridgeWay = await stage.network(`bridge ${i}`);
    const httpWay = await stage.network(`http ${i}`);
    const own = { token: stage.token, env: stage.env };
    const random = randomFrom(seed - i);
    const owners: Peer[] = [
      await socket(`socket ${i}`),
      new BridgePeer(
        `bridge ${i}`,
        { ...own, url: `${bridgeWay.url(stage.gateway.wsUrl)}?workspace=${stage.workspace}` },
        answers,
        random,
      ),
      new HttpPeer(
        `http ${i}`,
        { ...own, url: `${httpWay.url(stage.url)}/acp?workspace=${stage.workspace}` },
        answers,
        random,
      ),
    ];
    for (const owner of owners) {
      await owner.open(stage.root);
      const way = await stage.network(`reader of ${owner.name}`);
      const reader = new LogReader(
        `reader of ${owner.name}`,
        owner.sessionId,
        way.url(stage.url),
        stage.token,
      );
      readerOf.set(owner.sessionId, reader);
      const work: Work = { owner, peers: [owner], readers: [reader], prompts: [] };
      await greet(work);
      works.push(work);
    }
    const [first] = owners;
    const follower = await socket(`follower of ${first?.name}`, "&role=observer");
    follower.follow(first?.sessionId ?? "", stage.root);
    works.find(({ owner }) => owner === first)?.peers.push(follower);
  }
  return works;
}

/** A reader has a place to come back to once it has got something. */
async function greet({ owner, readers, prompts }: Work): Promise<void> {
  const script: Script = { mark: markFor(owner, 0), count: 1, everyMs: 0, size: 30 };
  prompts.push({ script, end: await owner.prompt(script) });
  await until(() => owner.seen.length > 0 && readers.every(({ lines }) => lines.length > 0));
}

function markFor({ name }: Peer, turn: number): string {
  return `${name.replace(" ", "")}-${turn}`;
}

async function keepPrompting({ owner, prompts }: Work, random: Random, isOver: () => boolean): Promise<void> {
  for (let turn = 1; !isOver(); turn += 1) {
    const count = 1 + random.below(60);
    const script: Script = {
      mark: markFor(owner, turn),
      count,
      everyMs: random.pick([0, 1, 5, 20]),
      size: random.pick([30, 30, 200, 3000]),
      ...(random.chance(0.3) && { ask: random.below(count) }),
    };
    const prompt: Work["prompts"][number] = { script, end: undefined };
    prompts.push(prompt);
    prompt.end = await owner.prompt(script);
  }
}

/** The evidence once the logs have stopped growing: a drained host may end its agents after the last turn. */
async function settled(stage: Stage, works: readonly Work[]): Promise<Evidence[]> {
  let evidence = await gather(stage, works);
  for (let tries = 0; tries < 20; tries += 1) {
    await allCaughtUp(works, evidence);
    const before = evidence;
    evidence = await gather(stage, works);
    if (evidence.every(({ lines }, i) => lines.length === before[i]?.lines.length)) break;
  }
  return evidence;
}

async function gather(stage: Stage, works: readonly Work[]): Promise<Evidence[]> {
  return Promise.all(
    works.map(async ({ owner: { sessionId }, peers, readers, prompts }) => {
      const lines = (await textOf(stage, `/api/sessions/${sessionId}/events`)).split("\n").filter(Boolean);
      return {
        sessionId,
        lines,
        prompts,
        log: lines.map((line) => JSON.parse(line) as LogEvent),
        seen: new Map(peers.map(({ name, seen }) => [name, seen])),
        read: new Map(readers.map((reader) => [reader.name, reader.lines])),
      };
    }),
  );
}

/** Waits until every reader has as much as the log. */
async function allCaughtUp(works: readonly Work[], evidence: readonly Evidence[]): Promise<void> {
  await until(() =>
    works.every(({ peers, readers }, i) => {
      const { log, lines } = evidence[i] as Evidence;
      const updates = tokensOf(log).length;
      return (
        peers.every(({ seen }) => seen.length >= updates) &&
        readers.every((reader) => reader.lines.length >= lines.length)
      );
    }),
  );
}

function complaints({ owner, peers, readers }: Work): string[] {
  const requests = peers.flatMap(({ name, requests }) =>
    [...requests].flatMap(([id, { sent, answered }]) =>
      answered > sent
        ? [`${name}: the request ${id} was sent ${sent} times and answered ${answered} times`]
        : [],
    ),
  );
  // The bridge outlives its sockets, so it answers everything.
  const open =
    owner instanceof BridgePeer ? [...owner.requests].filter(([, { answered }]) => answered === 0) : [];
  const unanswered = open.map(([id]) => `${owner.name}: the request ${id} was never answered`);
  const refusals = owner instanceof HttpPeer ? owner.refusals.map((text) => `${owner.name}: ${text}`) : [];
  const gaps = readers.flatMap(({ name, violations }) => violations.map((text) => `${name}: ${text}`));
  return [...requests, ...unanswered, ...refusals, ...gaps];
}

/** The state of every session is the fold of its log: it stays the same when all snapshots are lost. */
async function checkProjections(stage: Stage, evidence: readonly Evidence[]): Promise<string[]> {
  const views = () => Promise.all(evidence.map(({ sessionId }) => viewOf(stage, sessionId)));
  let before = await views();
  // The end of the hosts is news for the sessions.
  await until(async () => {
    const earlier = before;
    await sleep(QUIET_MS);
    before = await views();
    return before.every((view, i) => view === earlier[i]);
  });
  await stage.restart(() => {
    for (const file of stage.sessionFiles()) changeSnapshots(file, "DELETE FROM snapshot");
  });
  const after = await views();
  return evidence.flatMap(({ sessionId }, i) =>
    before[i] === after[i]
      ? []
      : [`session ${sessionId}: without its snapshot it is ${after[i]}, it was ${before[i]}`],
  );
}

async function viewOf(stage: Stage, sessionId: string): Promise<string> {
  const view = JSON.parse(await textOf(stage, `/api/sessions/${sessionId}`)) as Record<string, unknown>;
  // Who is attached is not in the log.
  return JSON.stringify({ ...view, clients: null, workspaceState: null });
}

/** Time in which the news of the hosts reach the sessions. */
const QUIET_MS = 1_000;

async function textOf(stage: Stage, path: string): Promise<string> {
  let text: string | undefined;
  await until(async () => {
    const response = await stage.api(path);
    if (response.ok) text = await response.text();
    return text !== undefined;
  });
  if (text === undefined) throw new Error(`${path} cannot be read`);
  return text;
}

/** Waits until the check holds, or until it never will. */
async function until(check: () => boolean | Promise<boolean>, withinMs = PATIENCE_MS): Promise<void> {
  const deadline = Date.now() + withinMs;
  while (Date.now() < deadline && !(await (async () => check())().catch(() => false))) await sleep(50);
}

/** The report of a run. A run that failed shows its faults. */
export function report(options: RunOptions, { violations, schedule, startedAt, counts }: Verdict): string {
  const faults = schedule.map(({ at, fault }) => `  ${((at - startedAt) / 1000).toFixed(3)} s  ${fault}`);
  const start = new Date(startedAt).toISOString();
  return [
    `started ${start} with ${JSON.stringify(options)}: ${JSON.stringify(counts)}`,
    ...(violations.length === 0 ? [] : ["faults:", ...faults]),
    `${violations.length} violations`,
    ...violations.map((violation) => `  - ${violation}`),
  ].join("\n");
}
