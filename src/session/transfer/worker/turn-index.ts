import type { TurnMark } from "../../../protocol/rpc.ts";

/** An entry of `index/turns.json`. */
type IndexedTurn = {
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

/** Where the turns of a log begin and end. A reader of the archive finds a turn without searching the events. */
export class TurnIndex {
  readonly #turns = new Map<string, IndexedTurn>();

  add(marks: readonly TurnMark[], segment: string): void {
    for (const mark of marks) this.#add(mark, segment);
  }

  list(): IndexedTurn[] {
    return [...this.#turns.values()];
  }

  #add({ status, seq, at, turnId, prompt, stopReason }: TurnMark, segment: string): void {
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
    const change =
      status === "running"
        ? { prompt, startSeq: seq, startedAt: at, startSegment: segment }
        : { endSeq: seq, endedAt: at, status, stopReason };
    this.#turns.set(turnId, { ...turn, ...change });
  }
}
