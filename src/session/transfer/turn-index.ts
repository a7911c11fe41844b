import type { LogEvent } from "../core/events/event.ts";

/** What `index/turns.json` needs of a `turn.*` event. */
export type TurnMark = {
  kind: string;
  seq: number;
  at: string;
  turnId: string | null;
  prompt: number | null;
  stopReason: string | null;
};

export type IndexedTurn = {
  turnId: string;
  prompt: number | null;
  startSeq: number | null;
  startedAt: string | null;
  startSegment: string | null;
  endSeq: number | null;
  endedAt: string | null;
  status: string;
  stopReason: string | null;
};

export function isTurnKind(kind: string): boolean {
  return kind.startsWith("turn.");
}

export function turnMark(event: LogEvent): TurnMark {
  const { turnId, prompt, stopReason } = "payload" in event ? event.payload : {};
  return {
    kind: event.kind,
    seq: event.seq,
    at: new Date(event.at).toISOString(),
    turnId: typeof turnId === "string" ? turnId : event.context.turnId,
    prompt: typeof prompt === "number" ? prompt : null,
    stopReason: typeof stopReason === "string" ? stopReason : null,
  };
}

/** The turns of a log by where they begin and end: a cache that saves a reader the search. */
export class TurnIndex {
  readonly #turns = new Map<string, IndexedTurn>();

  add(marks: readonly TurnMark[], segment: string): void {
    for (const mark of marks) if (mark.turnId !== null) this.#add(mark, mark.turnId, segment);
  }

  list(): IndexedTurn[] {
    return [...this.#turns.values()];
  }

  #add({ kind, seq, at, prompt, stopReason }: TurnMark, turnId: string, segment: string): void {
    const turn = this.#turns.get(turnId) ?? {
      turnId,
      prompt,
      startSeq: null,
      startedAt: null,
      startSegment: null,
      endSeq: null,
      endedAt: null,
      status: "running",
      stopReason: null,
    };
    if (kind === "turn.started")
      this.#turns.set(turnId, { ...turn, prompt, startSeq: seq, startedAt: at, startSegment: segment });
    else
      this.#turns.set(turnId, {
        ...turn,
        endSeq: seq,
        endedAt: at,
        status: kind.slice("turn.".length),
        stopReason,
      });
  }
}
