/** Peers that send the damaged messages, each over its own transport, and reconnect when they are closed. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Agent, request } from "node:http";
import WebSocket from "ws";
import { encodeLink } from "../../../src/protocol/host-wire.ts";
import { RESUMABLE } from "../../../src/protocol/resumable-wire.ts";
import type { Random } from "../../fixtures/random.ts";
import * as corpus from "./corpus.ts";
import { mutant } from "./mutate.ts";

export type Target = {
  url: string;
  /** A token with every right of a client in the workspaces `own` and of the victim. */
  token: string;
  hostToken: string;
  /** A workspace with no host but the attacker. */
  own: string;
  /** Sessions with an agent. */
  victims: readonly string[];
  /** Sessions that do not exist. */
  nobody: readonly string[];
};

/** Counts of the outcomes. */
export class Tally {
  sent = 0;
  readonly #seen = new Map<string, number>();
  /** Every message of the gateway, for attackers that need its contents. */
  onText: (text: string) => void = () => {};

  count(what: string): void {
    this.#seen.set(what, (this.#seen.get(what) ?? 0) + 1);
  }

  get seen(): Record<string, number> {
    return Object.fromEntries([...this.#seen].sort());
  }
}

const INITIALIZE = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}';
const OLDER =
  '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"1","capabilities":{}}}';
const OLDEST =
  '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"0.3.1","clientCapabilities":{"editWorkspace":true}}}';
const BATCH = 250;
const PATIENCE_MS = 30_000;

/** A socket that knows when it is closed and how much the gateway has received. */
class Line {
  readonly #ws: WebSocket;
  readonly #tally: Tally;
  readonly #closed: Promise<unknown>;
  #texts: ((text: string) => void)[] = [];

  private constructor(ws: WebSocket, tally: Tally) {
    this.#ws = ws;
    this.#tally = tally;
    this.#closed = new Promise((resolve) => {
      ws.on("close", (code) => resolve(tally.count(`close ${code}`)));
    });
    // A refused socket is closed too.
    ws.on("error", () => {});
    ws.on("message", (data) => {
      const text = String(data);
      tally.onText(text);
      for (const hear of this.#texts) hear(text);
    });
  }

  static async open(tally: Tally, url: string, protocol?: string): Promise<Line | undefined> {
    const ws = new WebSocket(url.replace(/^http/, "ws"), protocol === undefined ? [] : [protocol]);
    const line = new Line(ws, tally);
    const opened = once(ws, "open").then(
      () => true,
      () => false,
    );
    if (await opened) return line;
    tally.count("not let in");
    return undefined;
  }

  get isOpen(): boolean {
    return this.#ws.readyState === WebSocket.OPEN;
  }

  hear(listener: (text: string) => void): void {
    this.#texts.push(listener);
  }

  say(text: string): void {
    if (this.isOpen) this.#ws.send(text);
  }

  fuzz(text: string, random: Random): void {
    this.#tally.sent += 1;
    if (!this.isOpen) return;
    this.#ws.send(random.chance(0.005) ? Buffer.from(text) : text);
  }

  /** Sends a request and waits for the answer or the end of the socket. */
  async barrier(question: string, answer: string): Promise<void> {
    let done = () => {};
    const answered = new Promise<void>((resolve) => {
      done = resolve;
    });
    const hear = (text: string) => text.includes(answer) && done();
    this.#texts.push(hear);
    this.say(question);
    await this.#within(Promise.race([answered, this.#closed]));
    this.#texts = this.#texts.filter((one) => one !== hear);
  }

  async end(): Promise<void> {
    this.#ws.close(1000);
    await this.#within(this.#closed);
    this.#ws.terminate();
  }

  async #within(promise: Promise<unknown>): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<"late">((resolve) => {
      timer = setTimeout(() => resolve("late"), PATIENCE_MS);
    });
    if ((await Promise.race([promise, late])) === "late") {
      this.#tally.count("no answer in time");
      this.#ws.terminate();
    }
    clearTimeout(timer);
  }
}

/** The corpus of a session is built once. */
const said = new Map<string, { frames: string[]; heavy: string[] }>();

function frame(random: Random, target: Target): string {
  const sessionId = random.pick(random.chance(0.3) ? target.victims : target.nobody);
  let about = said.get(sessionId);
  if (!about) {
    about = { frames: corpus.clientFrames(sessionId), heavy: corpus.heavyFrames(sessionId) };
    said.set(sessionId, about);
  }
  const kind = random.below(1000);
  if (kind < 2) return mutant(random, corpus.OPENINGS);
  return mutant(random, kind < 10 ? about.heavy : about.frames);
}

/** Plain WebSockets on `/acp` and `/agent/ws`. */
export async function socketClient(
  random: Random,
  target: Target,
  tally: Tally,
  frames: number,
): Promise<void> {
  let left = frames;
  while (left > 0) {
    const path = random.pick(["/acp", "/acp", "/agent/ws"]);
    const line = await Line.open(tally, `${target.url}${path}?token=${target.token}&workspace=${target.own}`);
    if (!line) return;
    if (random.chance(0.9)) line.say(random.pick([INITIALIZE, INITIALIZE, OLDER, OLDEST]));
    while (left > 0 && line.isOpen && random.chance(0.95)) {
      for (let i = 0; i < BATCH; i += 1) line.fuzz(frame(random, target), random);
      left -= BATCH;
      const id = randomUUID();
      await line.barrier(`{"jsonrpc":"2.0","id":"${id}","method":"_fuzz/are_you_there"}`, id);
    }
    await line.end();
  }
}

/** Clients of the resumable wire. */
export async function resumableClient(
  random: Random,
  target: Target,
  tally: Tally,
  frames: number,
): Promise<void> {
  let left = frames;
  let connection = "";
  while (left > 0) {
    const again = connection !== "" && random.chance(0.5) ? `&connection=${connection}` : "";
    const url = `${target.url}/acp?token=${target.token}&workspace=${target.own}${again}`;
    const line = await Line.open(tally, url, RESUMABLE);
    connection = "";
    if (!line) continue;
    let received = 0;
    line.hear((text) => {
      const head = JSON.parse(text.split("\n", 1)[0] as string) as Record<string, unknown>;
      if (typeof head.connection === "string") connection = head.connection;
      if (typeof head.received === "number") received = Math.max(received, head.received);
      if (head.t === "page") line.say(JSON.stringify({ t: "ack", chars: 1e9, own: Number(head.at) || 0 }));
    });
    await line.barrier('{"t":"hello","own":0,"cursors":{}}', '"welcome"');
    while (left > 0 && line.isOpen && random.chance(0.97)) {
      // One message has many frames, the last of which is a request.
      const id = randomUUID();
      const lines = Array.from({ length: BATCH }, () => frame(random, target).replaceAll("\n", " "));
      const first = received + 1;
      const ask = `{"jsonrpc":"2.0","id":"${id}","method":"_fuzz/are_you_there"}`;
      tally.sent += BATCH;
      left -= BATCH;
      if (first === 1) lines.unshift(INITIALIZE);
      await line.barrier(
        [JSON.stringify({ t: "lines", first }), ...lines, ask].join("\n"),
        `"received":${first + lines.length}`,
      );
      if (!random.chance(0.3)) continue;
      const heads = corpus.linkHeads(random.pick(target.victims));
      for (let i = 0; i < 5; i += 1) line.fuzz(mutant(random, heads), random);
      left -= 5;
    }
    await line.end();
  }
}

/** A host that sends anything, on its control socket and as the agent of the sessions it has to open. */
export async function host(random: Random, target: Target, tally: Tally, frames: number): Promise<void> {
  let left = frames;
  const orders: { sessionId: string; processRequest: number }[] = [];
  while (left > 0) {
    const control = await Line.open(tally, `${target.url}/host/control?token=${target.hostToken}`);
    if (!control) return;
    control.hear((text) => {
      const order = JSON.parse(text) as { t: string; sessionId: string; processRequest: number };
      if (order.t === "open") orders.push(order);
    });
    control.say(JSON.stringify(corpus.hostHello(`fuzz-${random.below(3)}`)));
    control.say('{"t":"agent","id":"demo","initialize":{"protocolVersion":1}}');
    for (let round = 0; round < 4 && left > 0; round += 1) {
      const messages = corpus.controlMessages(random.pick(target.victims));
      for (let i = 0; i < 20; i += 1) control.fuzz(mutant(random, messages), random);
      left -= 20;
      // Newer process requests are more likely to be still valid.
      const order = orders.at(-1 - random.below(Math.min(orders.length, 5)));
      if (order) left -= await agent(random, target, tally, order);
    }
    await control.end();
  }
}

async function agent(
  random: Random,
  target: Target,
  tally: Tally,
  { sessionId, processRequest }: { sessionId: string; processRequest: number },
): Promise<number> {
  const line = await Line.open(tally, `${target.url}/host/sessions/${sessionId}?token=${target.hostToken}`);
  if (!line) return 1;
  const hello = {
    t: "hello",
    run: randomUUID(),
    agent: "demo",
    host: "fuzz-0",
    root: "/",
    processRequest,
    delivered: 0,
    draining: false,
  } as const;
  if (random.chance(0.9)) line.say(encodeLink(hello));
  const items = corpus.hostItems("agent-session");
  let [first, sent] = [1, 0];
  for (let round = 0; round < 5 && line.isOpen; round += 1) {
    const batch = Array.from({ length: 100 }, () => mutant(random, items).replaceAll("\n", " "));
    line.say(encodeLink({ t: "lines", first }, batch));
    tally.sent += batch.length;
    sent += batch.length;
    first += batch.length;
    await line.barrier(encodeLink({ t: "lines", first }, ['["noise","here"]']), `"received":${first}`);
    first += 1;
    if (random.chance(0.2))
      line.fuzz(mutant(random, [encodeLink(hello), '{"t":"lines","first":3}\n{}']), random);
  }
  await line.end();
  return sent + 1;
}

const agentOfHttp = new Agent({ keepAlive: true, maxSockets: 8 });

/** HTTP requests of all sorts. */
export async function httpClient(
  random: Random,
  target: Target,
  tally: Tally,
  requests: number,
): Promise<void> {
  let connection = "";
  for (let left = requests; left > 0; left -= 1) {
    const session = random.pick(target.victims);
    const acp = random.chance(0.3);
    const [method, path, body] = acp
      ? (["POST", "/acp", random.chance(0.2) ? INITIALIZE : frame(random, target)] as const)
      : random.pick(corpus.restCalls(session, target.own));
    const headers: Record<string, string> = {
      authorization: `Bearer ${target.token}`,
      "content-type": "application/json",
      ...(acp &&
        connection !== "" &&
        random.chance(0.8) && { "acp-connection-id": connection, "acp-session-id": session }),
      ...(random.chance(0.2) && {
        [random.pick(corpus.HEADERS)]: mutant(random, [
          session,
          "1",
          "text/event-stream; q=0",
          "x".repeat(3000),
        ]),
      }),
    };
    const odd = random.chance(0.5);
    tally.sent += 1;
    const answer = await ask(target.url, {
      method: odd && random.chance(0.2) ? random.pick(corpus.METHODS) : method,
      path: odd ? oddPath(random, path) : path,
      headers,
      body: body === undefined ? undefined : mutant(random, [body]),
    });
    if (answer === undefined) {
      tally.count("no HTTP answer");
      continue;
    }
    tally.count(`HTTP ${answer.status}`);
    if (answer.status >= 500)
      tally.count(`HTTP ${answer.status} ${method} ${path}: ${answer.text.slice(0, 200)}`);
    tally.onText(answer.text);
    if (answer.connection !== undefined) connection = answer.connection;
  }
}

function oddPath(random: Random, path: string): string {
  const [, ...parts] = path.split("/");
  const at = random.below(parts.length);
  const instead = [
    "",
    "..",
    "%00",
    "%",
    "%ff",
    "__proto__",
    "constructor",
    "💥",
    "null",
    "0",
    randomUUID(),
    "x".repeat(2000),
  ];
  parts[at] = random.chance(0.7)
    ? mutant(random, [parts[at] as string, ...instead]).slice(0, 3000)
    : random.pick(instead);
  const query = random.chance(0.3)
    ? `?${random.pick(["limit", "after", "cursor", "format", "workspace", "as", "kind"])}=${mutant(random, ["1", ...instead]).slice(0, 3000)}`
    : "";
  // The request stays valid HTTP: parsing the request line is not our code.
  return encodeURI(`/${parts.join("/")}${query}`.toWellFormed()).replaceAll("%25", random.pick(["%25", "%"]));
}

type Answer = { status: number; text: string; connection: string | undefined };

/** Resolves to undefined when Node refuses to send the request, the response has no end, or the connection closes. */
function ask(
  url: string,
  {
    method,
    path,
    headers,
    body,
  }: { method: string; path: string; headers: Record<string, string>; body: string | undefined },
): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    try {
      // Node sends the length of a body only for methods that have one; another body would be read as the next request.
      const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
      const options = { method, path, headers: { ...headers, ...length }, agent: agentOfHttp };
      const outgoing = request(url, options, (incoming) => {
        let text = "";
        const connection = incoming.headers["acp-connection-id"];
        const done = () =>
          resolve({
            status: incoming.statusCode as number,
            text,
            connection: typeof connection === "string" ? connection : undefined,
          });
        incoming.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        incoming.on("end", done);
        incoming.on("error", done);
        // The beginning of live streams and long logs is enough.
        if (incoming.headers["content-type"]?.startsWith("text/event-stream")) outgoing.destroy();
      });
      outgoing.on("error", () => resolve(undefined));
      outgoing.end(body);
    } catch {
      resolve(undefined);
    }
  });
}
