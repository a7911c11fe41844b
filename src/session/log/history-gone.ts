/** A reader asked for events that have been removed from the archive. */
export class HistoryGone extends Error {
  readonly last: number;

  constructor({ first, last }: { first: number; last: number }) {
    super(`Events ${first} to ${last} of this session are no longer available`);
    this.last = last;
  }
}
