/** The index does not answer now: its database is overloaded, locked or out of reach. The sessions themselves are not. */
export class IndexUnavailable extends Error {
  constructor(cause: unknown) {
    super("The index does not answer", { cause });
    this.name = "IndexUnavailable";
  }
}
