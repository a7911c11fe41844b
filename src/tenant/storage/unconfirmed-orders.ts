/** An order to the object of one subject, and how many changes it stands for. */
export type UnconfirmedOrder = {
  readonly subject: string;
  readonly changes: number;
  readonly endsAll: boolean;
};

type Row = { subject: string; changes: number; endsAll: number };

/** Orders to other objects that are not confirmed: subjects whose revocations changed, and connections that must end. */
export class UnconfirmedOrders {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Notes that the revocations about a subject have changed. `endsAll`: everything that it has open must end. */
  put(subject: string, endsAll = false): void {
    this.#sql.exec(
      `INSERT INTO subject_order (subject, changes, endsAll) VALUES (?, 1, ?)
       ON CONFLICT (subject) DO UPDATE SET changes = changes + 1, endsAll = max(endsAll, excluded.endsAll)`,
      ...[subject, Number(endsAll)],
    );
  }

  isForSubjects(): boolean {
    return this.#sql.exec("SELECT 1 FROM subject_order LIMIT 1").toArray().length > 0;
  }

  subjects(): UnconfirmedOrder[] {
    return this.#sql
      .exec<Row>("SELECT subject, changes, endsAll FROM subject_order ORDER BY subject")
      .toArray()
      .map(({ endsAll, ...order }) => ({ ...order, endsAll: endsAll !== 0 }));
  }

  /** The subject's object has carried out the order. A change since then is another order. */
  confirm({ subject, changes }: UnconfirmedOrder): void {
    this.#sql.exec("DELETE FROM subject_order WHERE subject = ? AND changes = ?", subject, changes);
  }

  /** The session of this connection was revoked. */
  putConnection(id: string): void {
    this.#sql.exec("INSERT OR IGNORE INTO ending_connection (id) VALUES (?)", id);
  }

  connections(): string[] {
    return this.#sql
      .exec<{ id: string }>("SELECT id FROM ending_connection ORDER BY id")
      .toArray()
      .map(({ id }) => id);
  }

  confirmConnection(id: string): void {
    this.#sql.exec("DELETE FROM ending_connection WHERE id = ?", id);
  }
}
