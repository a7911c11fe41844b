import { textChunks } from "../../durable/text-chunks.ts";
import {
  conceal,
  mayHaveCredentials,
  measureValues,
  referencesIn,
  reveal,
} from "../../protocol/concealment.ts";
import { ErrorCode, type RpcError } from "../../protocol/errors.ts";
import { type Frame, mustReadFrame } from "../../protocol/frame.ts";
import type { Limits } from "../../protocol/limits.ts";

/**
 * Credentials that clients gave the agent. They stay in the session's storage and out of its log, so no reader of the
 * log sees them. Only the host link puts them back, into lines for the agent.
 */
export class ConcealedValues {
  readonly #sql: SqlStorage;
  readonly #limits: Pick<Limits, "credentialCount" | "credentialChars" | "rowChars">;
  /** The first answer to a form whose values are kept; infinite if there is none, undefined if that is not known. */
  #firstAnswer: number | undefined;

  constructor(sql: SqlStorage, limits: Pick<Limits, "credentialCount" | "credentialChars" | "rowChars">) {
    this.#sql = sql;
    this.#limits = limits;
  }

  /**
   * The reason why the credentials of a frame cannot be kept; undefined if they can. Of a response, `asked` is the
   * method of the agent's request. A load or resume is kept only if it `brings` members of the opening.
   */
  refusalFor(frame: Frame, asked?: string, brings = false): RpcError | undefined {
    if (!isKept(frame, asked) && !brings) return undefined;
    const { count, chars } = measureValues(frame.raw, asked);
    if (count === 0) return undefined;
    const { credentialCount, credentialChars } = this.#limits;
    const [kept] = this.#sql
      .exec<{ count: number; chars: number }>(
        "SELECT COUNT(*) AS count, COALESCE(SUM(LENGTH(value)), 0) AS chars FROM concealed_value",
      )
      .toArray();
    if ((kept?.count ?? 0) + count <= credentialCount && (kept?.chars ?? 0) + chars <= credentialChars)
      return undefined;
    const message = `The session keeps at most ${credentialCount} credentials of ${credentialChars} characters together`;
    return { code: ErrorCode.invalidParams, message };
  }

  /** A client's frame with references in place of credentials, fit for the log. */
  conceal(frame: Frame): Frame {
    const { frame: concealed, keep } = this.prepare(frame);
    keep?.();
    return concealed;
  }

  /**
   * As `conceal`, but the credentials are kept only by `keep`: a frame that is refused must leave none behind. An answer
   * to a form is kept with its sequence number, until the agent has the answer.
   */
  prepare(
    frame: Frame,
    asked?: string,
    brings = false,
  ): { readonly frame: Frame; readonly keep?: (seq?: number) => void } {
    if (!mayHaveCredentials(frame.value, asked)) return { frame };
    const { raw, values } = conceal(frame.raw, () => crypto.randomUUID(), asked);
    if (Object.keys(values).length === 0) return { frame };
    const concealed = mustReadFrame(raw);
    if (!isKept(frame, asked) && !brings) return { frame: concealed };
    const keep = (seq?: number) => this.#keep(values, frame.kind === "response" ? seq : undefined);
    return { frame: concealed, keep };
  }

  /** A line for the agent with the credentials put back. */
  reveal(line: string, asked?: string): string {
    return reveal(line, (reference) => this.#find(reference), asked);
  }

  /** Forgets the answers to forms up to this event: the agent has them, and no other process gets them. */
  forgetAnswers(upTo: number): void {
    // Asked with every message of a host, so the table is not read each time.
    this.#firstAnswer ??= this.#readFirstAnswer();
    if (upTo < this.#firstAnswer) return;
    this.#sql.exec("DELETE FROM concealed_value WHERE answer <= ?", upTo);
    this.#firstAnswer = undefined;
  }

  #readFirstAnswer(): number {
    const [row] = this.#sql
      .exec<{ first: number | null }>("SELECT MIN(answer) AS first FROM concealed_value")
      .toArray();
    return row?.first ?? Number.POSITIVE_INFINITY;
  }

  /** Forgets all credentials but those of the given frames, which a later process needs. */
  keepOnly(frames: readonly Frame[]): void {
    const needed = JSON.stringify(frames.flatMap(({ raw }) => referencesIn(raw)));
    this.#sql.exec(
      `DELETE FROM concealed_value
        WHERE substr(reference, 1, instr(reference || '/', '/') - 1) NOT IN (SELECT value FROM json_each(?))`,
      needed,
    );
  }

  /** Forgets the credentials of frames that no process will get any more. */
  forget(frames: readonly Frame[]): void {
    const references = JSON.stringify(frames.flatMap(({ raw }) => referencesIn(raw)));
    this.#sql.exec(
      `DELETE FROM concealed_value
        WHERE substr(reference, 1, instr(reference || '/', '/') - 1) IN (SELECT value FROM json_each(?))`,
      references,
    );
  }

  #keep(values: Record<string, string>, answer?: number): void {
    this.#firstAnswer = undefined;
    for (const [reference, value] of Object.entries(values)) {
      for (const [part, text] of textChunks(value, this.#limits.rowChars).entries())
        this.#sql.exec(
          "INSERT INTO concealed_value (reference, value, answer) VALUES (?, ?, ?)",
          partName(reference, part),
          text,
          answer ?? null,
        );
    }
  }

  #find(reference: string): string | undefined {
    let value: string | undefined;
    for (let part = 0; ; part += 1) {
      const [row] = this.#sql
        .exec<{ value: string }>(
          "SELECT value FROM concealed_value WHERE reference = ?",
          partName(reference, part),
        )
        .toArray();
      if (!row) return value;
      value = (value ?? "") + row.value;
    }
  }
}

/** A value that is too long for one row continues under further names. A reference is a UUID and has no slash. */
function partName(reference: string, part: number): string {
  return part === 0 ? reference : `${reference}/${part}`;
}

/** No agent sees a frame that the gateway answers itself, so its credentials are needed only if it brings members. */
function isKept({ method = "", value }: Frame, asked?: string): boolean {
  return mayHaveCredentials(value, asked) && method !== "session/load" && method !== "session/resume";
}
