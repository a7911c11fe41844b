import { type Frame, mustReadFrame } from "../../../protocol/frame.ts";
import type { Limits } from "../../../protocol/limits.ts";
import { FACTS, type FactKind, type Facts } from "../events/catalogue.ts";
import {
  type Context,
  type FactEvent,
  type FrameEvent,
  isFrame,
  type LogEvent,
  type Payload,
  type Route,
  type Source,
} from "../events/event.ts";
import { apply } from "../state/fold.ts";
import type { SessionState } from "../state/state.ts";

/**
 * Events on their way into the log. Each event is numbered and folded into the state as it is added, so that the next
 * decision sees it. The caller writes all of them at once, before any reader sees one.
 */
export class Batch {
  readonly events: LogEvent[] = [];
  readonly at: number;
  readonly state: SessionState;
  readonly limits: Limits;
  readonly #logged: (seq: number) => LogEvent | undefined;

  constructor(
    state: SessionState,
    at: number,
    limits: Limits,
    logged: (seq: number) => LogEvent | undefined,
  ) {
    this.state = state;
    this.at = at;
    this.limits = limits;
    this.#logged = logged;
  }

  /** The number the next event will have: a request of ours uses it as its id. */
  get nextSeq(): number {
    return this.state.lastSeq + 1;
  }

  /** A frame that is in the log, or in this batch on its way there. */
  frameAt(seq: number): FrameEvent {
    const event = this.findFrame(seq);
    if (!event) throw new Error(`Event ${seq} is not a frame`);
    return event;
  }

  /** As `frameAt`; undefined for a frame that is in the archive. */
  findFrame(seq: number): FrameEvent | undefined {
    const event = this.events.find((e) => e.seq === seq) ?? this.#logged(seq);
    return event && isFrame(event) ? event : undefined;
  }

  /** The new event of this very frame, if there is one. */
  eventOf(frame: Frame): FrameEvent | undefined {
    return this.events.find((event): event is FrameEvent => isFrame(event) && event.frame === frame);
  }

  frame(
    source: Source,
    direction: "in" | "out",
    frame: Frame | string,
    route: Route = {},
    context?: Context,
  ): number {
    const message = typeof frame === "string" ? mustReadFrame(frame) : frame;
    const place = this.#place(context);
    const prompt = message.kind === "notification" ? undefined : this.#promptOf(place.seq, message, route);
    return this.#add({
      ...place,
      ...request(prompt),
      kind: "acp.frame",
      source,
      direction,
      frame: message,
      route,
    });
  }

  fact<Kind extends FactKind>(source: Source, kind: Kind, payload: Facts[Kind], context?: Context): number {
    const event = { ...this.#place(context), ...request(promptIn(kind, payload)), kind, source, payload };
    // The compiler cannot follow that `kind` and `payload` vary together.
    return this.#add(event as FactEvent);
  }

  /** The sequence number of the prompt that a frame is, or answers. */
  #promptOf(seq: number, { method }: Frame, { re }: Route): number | undefined {
    if (method === "session/prompt") return seq;
    return re !== undefined && this.state.awaitingAgent[re]?.method === "session/prompt" ? re : undefined;
  }

  #place(context: Context = this.state.context) {
    return { seq: this.nextSeq, at: this.at, context };
  }

  #add(event: LogEvent): number {
    this.events.push(event);
    apply(this.state, event);
    return event.seq;
  }
}

/** The sequence number of the prompt that a fact belongs to. */
function promptIn(kind: FactKind, payload: Payload): unknown {
  const field = FACTS[kind].prompt;
  return field && payload[field];
}

/** Events of one prompt, from the queue to its answer, share a request id made of the prompt's sequence number. */
function request(prompt: unknown): { requestId?: string } {
  return typeof prompt === "number" ? { requestId: `req_${prompt}` } : {};
}
