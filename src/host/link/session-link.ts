import { z } from "zod";
import { type Gateway, GatewaySocket, type Loss } from "../../node/gateway-socket.ts";
import { reasonOf } from "../../node/log.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { decodeLink, encodeLink, type SessionHead, splitNumbered } from "../../protocol/host-wire.ts";
import type { IoServer } from "../../protocol/methods.ts";
import type { AgentRun } from "../agent/agent-run.ts";
import { SendWindow } from "./send-window.ts";

/** Which agent runs where, and for which process request of the session. */
type Serving = { agent: string; host: string; root: string; processRequest: number; io?: IoServer };

const count = z.number().int().nonnegative();
const sessionHead: z.ZodType<SessionHead> = z.discriminatedUnion("t", [
  z.object({
    t: z.literal("welcome"),
    received: count,
    windowMs: z.number().nonnegative().optional(),
    frameChars: z.number().positive().optional(),
    terminalOutput: z.literal(true).optional(),
  }),
  z.object({ t: z.literal("ack"), received: count }),
  z.object({ t: z.literal("lines") }),
  z.object({ t: z.literal("stop"), reason: z.string() }),
]);

/**
 * Carries the items of one run to its session, and the session's lines to the agent, over as many sockets as needed.
 * Items stay in the run's outbox until the session has acknowledged them. Lines that the agent already has are
 * recognised by their sequence number. A lost socket therefore costs time, but no data.
 */
export class SessionLink {
  /** Resolves when the session has all items of the run, or has dismissed the run. */
  get done(): Promise<void> {
    return this.#done.promise;
  }
  readonly #done = Promise.withResolvers<void>();
  readonly #run: AgentRun;
  readonly #serving: Serving;
  readonly #gateway: Gateway;
  readonly #name: string;
  readonly #socket: GatewaySocket;
  /** Number of the last item sent on the current socket; undefined until the session's welcome. */
  #sent: number | undefined;
  /** Number of the last item of each message that the session has not acknowledged yet. */
  #inFlight: number[] = [];
  /** Log sequence number of the last line delivered to the agent. */
  #delivered = 0;
  /** The agent does not read its input: lines are skipped, and requested again when it does. */
  #skipping = false;
  readonly #window: SendWindow;
  #pumping = false;
  #linger: NodeJS.Timeout | undefined;
  #over = false;

  readonly #isDraining: () => boolean;

  constructor(
    gateway: Gateway,
    sessionId: string,
    serving: Serving,
    run: AgentRun,
    isDraining: () => boolean = () => false,
  ) {
    this.#isDraining = isDraining;
    this.#run = run;
    this.#serving = serving;
    this.#gateway = gateway;
    this.#name = `session ${sessionId}`;
    this.#window = new SendWindow(gateway.limits.chunkWindowMs, () => this.#pumpSoon());
    run.outbox.onPush = (chars, isUrgent) => this.#window.add(chars, isUrgent);
    run.onDrained = () => this.#catchUp();
    this.#socket = new GatewaySocket(gateway, `/host/sessions/${encodeURIComponent(sessionId)}`, {
      opened: () => this.#opened(),
      message: (text) => this.#received(text),
      lost: (loss) => this.#lost(loss),
    });
  }

  /** Skips the rest of the current retry delay: the session waits for this link. */
  retryNow(): void {
    this.#socket.retryNow();
  }

  /** Gives the session a moment to acknowledge the exit of the run, then closes the link. */
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
        draining: this.#isDraining(),
      }),
    );
  }

  #lost({ code, status, reason }: Loss): "retry" | "give up" {
    this.#sent = undefined;
    if (code !== CloseCode.sessionGone && code !== CloseCode.superseded && status !== 404) return "retry";
    this.#gateway.log(
      `${this.#name}: ${code === CloseCode.superseded ? `dismissed (${reason})` : "the session is gone"}, agent stopped`,
    );
    this.#run.stop();
    this.#finish();
    return "give up";
  }

  #received(text: string): void {
    try {
      const { head, lines } = decodeLink(text);
      this.#handle(sessionHead.parse(head), lines);
    } catch (error) {
      // Continuing could leave a gap in the agent's input. A new socket cannot.
      this.#socket.drop(`message not understood: ${reasonOf(error)}`);
    }
  }

  #handle(head: SessionHead, lines: string[]): void {
    switch (head.t) {
      case "welcome":
        this.#acknowledged(head.received);
        this.#sent = this.#run.outbox.acked;
        this.#inFlight = [];
        // The side that wants chunks sooner decides.
        this.#window.ms = Math.min(
          this.#gateway.limits.chunkWindowMs,
          head.windowMs ?? Number.POSITIVE_INFINITY,
        );
        this.#window.open();
        if (head.frameChars !== undefined) this.#run.limitFrames(head.frameChars);
        this.#run.reportsOutput = head.terminalOutput === true;
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
    if (received > outbox.acked) this.#socket.progress();
    outbox.ack(received);
    if (this.#run.hasExited && outbox.acked === outbox.last) this.#finish();
  }

  /**
   * While the agent does not read its input, the socket cannot be paused: the agent may be waiting for the
   * acknowledgements on it. Nor can all lines be buffered. The session's log is the queue, so lines are skipped and
   * requested again later.
   */
  #deliver(lines: string[]): void {
    if (this.#skipping) return;
    if (this.#run.isInputFull) {
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
    if (frames.length === 0) return;
    this.#window.expectReaction();
    this.#run.deliver(frames);
  }

  #catchUp(): void {
    if (this.#skipping && !this.#run.isInputFull) this.#socket.drop("the agent reads its input again");
  }

  /** Defers sending until all output that is readable now has been read: it travels in one message. */
  #pumpSoon(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    setImmediate(() => {
      this.#pumping = false;
      this.#pump();
    });
  }

  /**
   * Keeps a few messages in flight. The items that accumulate until the session has stored one of them form the next
   * message. A slow session thus gets larger messages rather than more messages, and one write for each.
   */
  #pump(): void {
    const { outbox } = this.#run;
    this.#inFlight = this.#inFlight.filter((last) => last > outbox.acked);
    const { linkMessages } = this.#gateway.limits;
    while (this.#sent !== undefined && this.#window.isOpen && this.#inFlight.length < linkMessages) {
      const items = outbox.batch(this.#sent);
      if (this.#sent + items.length === outbox.last) this.#window.close();
      if (items.length === 0) return;
      const first = this.#sent + 1;
      this.#sent += items.length;
      this.#inFlight.push(this.#sent);
      const head = { t: "lines", first, delivered: this.#delivered } as const;
      this.#socket.send(encodeLink(head, items), () => this.#pumpSoon());
    }
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#linger);
    this.#window.close();
    this.#run.outbox.discard();
    this.#socket.close();
    this.#done.resolve();
  }
}
