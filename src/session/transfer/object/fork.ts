import type { Caller } from "../../../protocol/caller.ts";
import type { Hears } from "../../../protocol/client-subscriptions.ts";
import type { AcpSession } from "../../acp-session.ts";
import type { SessionImport } from "./session-import.ts";

export type ForkOrder = {
  sessionId: string;
  from: string;
  /** The last event to be copied; null for all of them. */
  at: number | null;
  connection: string;
  caller: Caller;
  /** JSON: parameters for the session/new of its own agent. */
  opening: string;
  hears: Hears;
};

/** Where the new session reads on, and what session/new would have said of modes and settings, as JSON. */
export type Forked = { attach: number; setup: string } | { refused: string };

type Source = Pick<DurableObjectStub<AcpSession>, "events">;

/** Copies the log of another session up to the event `at`; whatever goes wrong leaves nothing of it. */
export async function copyLog(
  source: Source,
  caller: Caller,
  at: number,
  target: SessionImport,
): Promise<void> {
  try {
    for (let after = 0; after < at; ) {
      const page = await source.events(caller, after, at - after);
      if (!page?.count) throw new Error(`The session to be forked ended after ${after}`);
      const fault = target.write("fork", new TextEncoder().encode(page.text));
      if (fault) throw new Error(fault.message);
      after = page.last;
    }
    const end = target.finish(at);
    if ("message" in end) throw new Error(end.message);
  } finally {
    await target.abort();
  }
}
