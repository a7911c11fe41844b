import { mustReadFrame } from "../protocol/frame.ts";
import { accepted, type Result } from "../protocol/refusal.ts";
import type { Login } from "../protocol/rpc.ts";
import type { Batch } from "./core/decide/batch.ts";
import { keepLogin, relayLogin } from "./core/decide/client-frames.ts";
import type { Recorder } from "./log/journal.ts";
import type { SessionParts } from "./session-parts.ts";

type Parts = Pick<SessionParts, "journal" | "concealed">;

/** Logins that a client of the session made with the agent of another session. */
export class LoginIntake {
  readonly #parts: Parts;
  readonly #record: Recorder;

  constructor(parts: Parts, record: Recorder) {
    this.#parts = parts;
    this.#record = record;
  }

  /** Gives the agent a login or a logout that the agent of another session has accepted. */
  relay(raw: string, agent?: string): Result<undefined> {
    const { concealed } = this.#parts;
    const given = mustReadFrame(raw);
    if (!this.#isFor(agent)) return accepted();
    if (concealed.refusalFor(given) === undefined)
      this.#record((batch) => relayLogin(batch, concealed.conceal(given)));
    return accepted();
  }

  /** Keeps the login of a client that has come, unless the session has this login already. */
  keep(batch: Batch, login: Login | undefined): void {
    if (!login || !this.#isFor(login.agent)) return;
    const { concealed } = this.#parts;
    const given = mustReadFrame(login.raw);
    const known = batch.findFrame(batch.state.login ?? 0)?.frame.raw;
    const isKnown = known !== undefined && paramsText(concealed.reveal(known)) === paramsText(login.raw);
    if (!isKnown && concealed.refusalFor(given) === undefined) keepLogin(batch, concealed.conceal(given));
  }

  /** Whether a login at this agent is one at the session's agent. */
  #isFor(agent: string | undefined): boolean {
    const own = this.#parts.journal.requireState().identity?.agent;
    return agent === undefined || !own || own === agent;
  }
}

function paramsText(raw: string): string {
  return JSON.stringify(mustReadFrame(raw).value.params);
}
