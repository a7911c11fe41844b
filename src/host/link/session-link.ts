import { z } from "zod";
import { type Gateway, GatewaySocket, type Loss } from "../../node/gateway-socket.ts";
import { reasonOf } from "../../node/log.ts";
import {
  decodeLink,
  encodeLink,
  type SessionHead,
  SUPERSEDED,
  splitNumbered,
} from "../../protocol/host-wire.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { IoServer } from "../../protocol/methods.ts";
import type { AgentRun } from "../agent/agent-run.ts";

/** With this close code, or that of a run it did not ask for, a session dismisses a run for good. */
const SESSION_GONE = 4404;

/** Which agent runs where, and for which wish of the session. */
type Serving = { agent: string; host: string; root: string; wish: number; io?: IoServer };

const count = z.number().int().nonnegative();
const sessionHead: z.ZodType<SessionHead> = z.discriminatedUnion("t", [
  z.object({ t: z.literal("welcome"), received: count }),
  z.object({ t: z.literal("ack"), received: count }),
  z.object({ t: z.literal("lines") }),
  z.object({ t: z.literal("stop"), reason: z.string() }),
]);

/**
 * Carries one run to its session and the session's lines to the agent, over as many sockets as it takes.
 * Items stay in the run's outbox until the session has acknowledged them; lines the agent already has are
 * recognised by their number. So a lost socket costs time and nothing else.
 */
export class SessionLink {
  /** Resolves when the session has all of the run, or does not want it. */
  get done(): Promise<void> {
    return this.#done.promise;
  }
  readonly #done = Promise.withResolvers<void>();
  readonly #run: AgentRun;
  readonly #serving: Serving;
  readonly #gateway: Gateway;
  readonly #name: string;
  readonly #socket: GatewaySocket;
  /** Number of the last item sent on the current socket; undefined until its welcome. */
  #sent: number | undefined;
  /** Last item of each message that the session has not acknowledged yet. */
  #inFlight: number[] = [];
  /** Log sequence number of the last line handed to the agent. */
  #delivered = 0;
  /** The agent does not read: lines were left out, and are asked for again when it does. */
  #skipping = false;
  #pumping = false;
  #linger: NodeJS.Timeout | undefined;
  #over = false;

  readonly #draining: () => boolean;

  constructor(
    gateway: Gateway,
    sessionId: string,
    serving: Serving,
    run: AgentRun,
    draining: () => boolean = () => false,
  ) {
    this.#draining = draining;
    this.#run = run;
    this.#serving = serving;
    this.#gateway = gateway;
    this.#name = `session ${sessionId}`;
    run.outbox.onPush = () => this.#pumpSoon();
    run.onDrained = () => this.#catchUp();
    this.#socket = new GatewaySocket(gateway, `/host/sessions/${encodeURIComponent(sessionId)}`, {
      opened: () => this.#opened(),
      message: (text) => this.#received(text),
      lost: (loss) => this.#lost(loss),
    });
  }

  retryNow(): void {
    this.#socket.retryNow();
  }

  /** Gives the session a moment to acknowledge the end of the run, then closes. */
  async finish(): Promise<void> {
    await this.#run.exited;
    if (!this.#over) this.#linger ??= setTimeout(() => this.#finish(), this.#gateway.timing.lingerMs);
    await this.done;
  }

  #opened(): void {
    this.#sent = undefined;
    this.#skipping = false;
    this.#socket.send(
      encodeLink({
        t: "hello",
        run: this.#run.id,
        ...this.#serving,
        delivered: this.#delivered,
        draining: this.#draining(),
      }),
    );
  }

  #lost({ code, status }: Loss): "retry" | "give up" {
    this.#sent = undefined;
    if (code !== SESSION_GONE && code !== SUPERSEDED && status !== 404) return "retry";
    this.#gateway.log(
      `${this.#name}: ${code === SUPERSEDED ? "another run took over" : "gone"}, agent stopped`,
    );
    this.#run.stop();
    this.#finish();
    return "give up";
  }

  #received(text: string): void {
    try {
      const { head, lines } = decodeLink(text);
      this.#obey(sessionHead.parse(head), lines);
    } catch (error) {
      // Going on could mean a hole in the agent's input; starting over cannot.
      this.#socket.drop(`message not understood: ${reasonOf(error)}`);
    }
  }

  #obey(head: SessionHead, lines: string[]): void {
    switch (head.t) {
      case "welcome":
        this.#acknowledged(head.received);
        this.#sent = this.#run.outbox.acked;
        this.#inFlight = [];
        this.#pump();
        return;
      case "ack":
        this.#acknowledged(head.received);
        this.#pump();
        return;
      case "lines":
        this.#deliver(lines);
        return;
      case "stop":
        this.#gateway.log(`${this.#name}: stopped (${head.reason})`);
        this.#run.stop();
        void this.finish();
        return;
    }
  }

  #acknowledged(received: number): void {
    const { outbox } = this.#run;
    outbox.ack(received);
    if (this.#run.hasExited && outbox.acked === outbox.last) this.#finish();
  }

  /**
   * The socket cannot be paused while the agent does not read: the acknowledgements on it may be what the
   * agent waits for. Nor can everything be kept. The session's log is the queue: ask again from there.
   */
  #deliver(lines: string[]): void {
    if (this.#skipping) return;
    if (this.#run.inputFull) {
      this.#skipping = true;
      return;
    }
    const frames: string[] = [];
    for (const line of lines) {
      const { seq, frame } = splitNumbered(line);
      if (!Number.isSafeInteger(seq)) throw new Error(`no line number: ${line.slice(0, 40)}`);
      if (seq <= this.#delivered) continue;
      this.#delivered = seq;
      frames.push(frame);
    }
    if (frames.length > 0) this.#run.deliver(frames);
  }

  #catchUp(): void {
    if (this.#skipping && !this.#run.inputFull) this.#socket.drop("the agent reads again");
  }

  /** Puts off sending until all that is readable now has been read, so that it travels together. */
  #pumpSoon(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    setImmediate(() => {
      this.#pumping = false;
      this.#pump();
    });
  }

  /**
   * Keeps a few messages under way; what gathers until one of them is durable goes out as the next. A session
   * that is slow gets larger messages instead of more of them, and one write for each.
   */
  #pump(): void {
    this.#inFlight = this.#inFlight.filter((last) => last > this.#run.outbox.acked);
    while (this.#sent !== undefined && this.#inFlight.length < LIMITS.linkMessages) {
      const items = this.#run.outbox.batch(this.#sent);
      if (items.length === 0) return;
      const first = this.#sent + 1;
      this.#sent += items.length;
      this.#inFlight.push(this.#sent);
      this.#socket.send(encodeLink({ t: "lines", first }, items), () => this.#pumpSoon());
    }
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#linger);
    this.#run.outbox.discard();
    this.#socket.close();
    this.#done.resolve();
  }
}
