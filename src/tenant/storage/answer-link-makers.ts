import type { Limits } from "../../protocol/limits.ts";
import type { Maker } from "../../protocol/maker.ts";
import { accepted, type Result, refused } from "../../protocol/refusal.ts";
import type { AnswerLinkRegistration } from "../../protocol/rpc.ts";
import { type RevocationTarget, reachedBy } from "./makers.ts";

type LinkLimits = Pick<Limits, "answerLinksPerSubject" | "answerLinksPerTenant">;

/** The makers of answer links that have not expired. Links made together have one id. */
export class AnswerLinkMakers {
  readonly #sql: SqlStorage;
  readonly #limits: LinkLimits;

  constructor(sql: SqlStorage, limits: LinkLimits) {
    this.#sql = sql;
    this.#limits = limits;
  }

  /** Refuses when a limit is reached. Expired links make room first. */
  add({ id, session, expires }: AnswerLinkRegistration, maker: Maker, now: number): Result<undefined> {
    this.#sql.exec("DELETE FROM answer_link WHERE expires <= ?", now);
    const { answerLinksPerSubject, answerLinksPerTenant } = this.#limits;
    const count = (condition: string, value: string | number) =>
      this.#sql.exec<{ n: number }>(`SELECT count(*) AS n FROM answer_link WHERE ${condition}`, value).one()
        .n;
    if (count("by_subject = ?", maker.subject) >= answerLinksPerSubject)
      return refused({
        reason: "conflict",
        message: `One user has at most ${answerLinksPerSubject} answer links`,
      });
    if (count("expires > ?", now) >= answerLinksPerTenant)
      return refused({
        reason: "conflict",
        message: `A tenant has at most ${answerLinksPerTenant} answer links`,
      });
    this.#sql.exec(
      "INSERT INTO answer_link (id, session, expires, by_subject, by_jti, by_workspace) VALUES (?, ?, ?, ?, ?, ?)",
      ...[id, session, expires, maker.subject, maker.jti, maker.workspace],
    );
    return accepted();
  }

  /** The ids of the links that a revocation reaches. */
  reachedBy(target: RevocationTarget, now: number): string[] {
    const [condition, values] = reachedBy(target);
    return this.#sql
      .exec<{ id: string }>(
        `SELECT id FROM answer_link WHERE ${condition} AND expires > ? ORDER BY expires, id`,
        ...values,
        now,
      )
      .toArray()
      .map(({ id }) => id);
  }
}
