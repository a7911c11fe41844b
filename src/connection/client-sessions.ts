import { callObject } from "../durable/object-call.ts";
import { type SessionObject, sessionObject } from "../durable/objects.ts";
import type { ClientState } from "../protocol/client-state.ts";
import type { Client } from "./client.ts";
import type { Logins } from "./logins.ts";

/** Calls to all sessions of one client. A session that cannot be reached keeps none of the others waiting. */

/** Sessions whose delivery rests continue, from where the client says that it is. */
export async function wakeSessions(env: Env, client: Client): Promise<void> {
  const { connection } = client.state;
  await Promise.allSettled(
    client.sessions().map((id) => callSession(env, client, id, (session) => session.wake(connection))),
  );
}

/**
 * Passes a login or logout, which the agent of session `from` has accepted, to the agents of the other sessions, and
 * keeps it for sessions to come. Sessions of an earlier build do not name their agent.
 */
export async function relayToOthers(
  env: Env,
  client: Client,
  logins: Logins,
  from: string,
  raw: string,
  agent = client.state.agent,
): Promise<void> {
  const { caller } = client.state;
  if (agent !== null) logins.take({ agent, raw });
  const others = client.sessions().filter((sessionId) => sessionId !== from);
  await Promise.allSettled(
    others.map((id) =>
      callSession(env, client, id, (session) => session.relay(caller, raw, agent ?? undefined)),
    ),
  );
}

/** Tells the sessions that the client continues with another token: they know its role. */
export async function announceCaller(env: Env, client: Client): Promise<void> {
  const { connection, caller } = client.state;
  const told = await Promise.allSettled(
    client
      .sessions()
      .map((id) => callSession(env, client, id, (session) => session.renew(connection, caller))),
  );
  const failed = told.filter(({ status }) => status === "rejected").length;
  // Every frame carries its caller, so only the presence that these sessions show is out of date.
  if (failed > 0) console.warn("sessions not told of a renewed token", { connection, sessions: failed });
}

/** Releases the client from every session that is closed and completely delivered. */
export async function releaseFinished(env: Env, client: Client): Promise<void> {
  const { connection } = client.state;
  await Promise.allSettled(
    client.sessions().map(async (sessionId) => {
      if (await callSession(env, client, sessionId, (session) => session.release(connection)))
        client.release(sessionId);
    }),
  );
}

/**
 * Detaches a client that is gone. Its turns go on, and its permission requests stay open, unless the workspace lets such
 * a client close its sessions.
 */
export function detachFrom(
  env: Env,
  { caller, connection, closes }: ClientState,
  sessions: readonly string[],
): Promise<unknown>[] {
  return sessions.map((id) =>
    callObject(
      () => sessionObject(env, caller.tenant, id),
      (session) => session.detach(connection, undefined, closes === true),
    ),
  );
}

function callSession<R>(
  env: Env,
  { state }: Client,
  sessionId: string,
  call: (session: SessionObject) => R,
): Promise<Awaited<R>> {
  return callObject(() => sessionObject(env, state.caller.tenant, sessionId), call);
}
