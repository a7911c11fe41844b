import type { Caller } from "../../../protocol/caller.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import { allowsEverything, checkOpening } from "../../../protocol/opening-rules.ts";
import { accepted, type Result, refused, unknownSession } from "../../../protocol/refusal.ts";
import type { EventsPage, Forked, ForkOrder, ImportOrder, SessionOrigin } from "../../../protocol/rpc.ts";
import { readable } from "../../../protocol/versions.ts";
import { mayOpenIn } from "../../access.ts";
import type { SessionImport } from "./session-import.ts";

/** The session that is forked, in another object. */
type ForkSource = {
  origin(caller: Caller): Promise<Result<SessionOrigin>>;
  events(caller: Caller, after: number, maxEvents: number): Promise<Result<EventsPage>>;
};

/**
 * Copies the log of another session, up to the event `order.at` or to its end, into an import that `begin` makes.
 * `answer` reads the copy.
 */
export async function forkSession(
  source: ForkSource,
  order: ForkOrder,
  begin: (order: ImportOrder) => Result<SessionImport>,
  answer: () => Forked,
): Promise<Result<Forked>> {
  const { sessionId, from, caller, opening } = order;
  const found = await source.origin(caller);
  if (!found.ok || !mayOpenIn(found.value.workspace, caller)) return refused(unknownSession(from));
  const { workspace, agent, lastSeq } = found.value;
  const upTo = order.at ?? lastSeq;
  if (upTo > lastSeq)
    return refused({ reason: "invalid", message: `The session's last event is ${lastSeq}` });
  const refusal = openingRefusal(opening, found.value.opening);
  if (refusal !== undefined) return refused({ reason: "invalid", message: refusal });
  const target = begin({
    sessionId,
    recordId: from,
    format: "fork",
    caller,
    workspace,
    agent,
    defaultAgent: agent,
    cwd: null,
    opening,
    copy: { originSeq: lastSeq, agentSession: null },
  });
  if (!target.ok) throw new Error("The id of a fork is taken");
  await copyLog(source, caller, upTo, target.value);
  return accepted(answer());
}

/**
 * The reason why the workspace would not let the copy's agent open with these parameters. Without a process of the forked
 * session the rules are known only when the copy's own process starts.
 */
function openingRefusal(opening: string, known: SessionOrigin["opening"]): string | undefined {
  if (!known || allowsEverything(known.rules)) return undefined;
  const checked = checkOpening(recordOf(JSON.parse(opening)), known.rules, known.root);
  return "refusal" in checked ? checked.refusal.message : undefined;
}

/** A failure removes everything that was copied. */
async function copyLog(
  source: ForkSource,
  caller: Caller,
  upTo: number,
  target: SessionImport,
): Promise<void> {
  try {
    for (let after = 0; after < upTo; ) {
      const page = await source.events(caller, after, upTo - after);
      if (!page.ok || page.value.count === 0)
        throw new Error(`The log of the forked session ended after event ${after}`);
      const { text } = readable(page.value, "A page of the log");
      const fault = target.write("fork", new TextEncoder().encode(text));
      if (fault) throw new Error(fault.message);
      after = page.value.last;
    }
    const end = target.finish(upTo);
    if ("message" in end) throw new Error(end.message);
  } finally {
    await target.abort();
  }
}
