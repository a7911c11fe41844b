import type { Caller } from "../protocol/caller.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import { type HostTokenName, subjectTokenOf } from "../protocol/subject-rpc.ts";
import { callObject } from "./object-call.ts";
import { subjectObject } from "./objects.ts";
import { PendingEntries } from "./pending-entries.ts";
import { REVOKED, UNKNOWN } from "./socket-registrar.ts";

/**
 * Checks the tokens of hosts before their sockets open. The sockets of a host are registered nowhere: its workspace ends
 * them by the token, and has the sessions end theirs.
 */
export class HostTokenCheck {
  readonly #env: Env;
  readonly #pending = new PendingEntries();

  constructor(env: Env) {
    this.#env = env;
  }

  /** Refuses a token that is revoked, and one of which nobody can say it now: the host comes again. */
  async check(caller: Caller): Promise<Result<undefined>> {
    const token = subjectTokenOf(caller);
    const asking = callObject(
      () => subjectObject(this.#env, token.tenant, token.subject),
      (object) => object.isRevoked(token),
    );
    try {
      const { answer: isRevoked, isEnded } = await this.#pending.during(keyOf(token), asking);
      return isRevoked || isEnded ? refused(REVOKED) : accepted();
    } catch (error) {
      console.error("token of a host could not be checked", { error: String(error) });
      return refused(UNKNOWN);
    }
  }

  /** The token was revoked: a check that is under way must not let it in. */
  markEnded(token: HostTokenName): void {
    this.#pending.end(keyOf(token));
  }
}

function keyOf({ subject, jti }: HostTokenName): string {
  return JSON.stringify([subject, jti]);
}
