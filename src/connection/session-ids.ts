import { derivedUuid, publicUuid } from "../durable/derived-uuid.ts";
import type { Client } from "./client.ts";

/**
 * The ids of the sessions that a client opens. A request that the client may repeat under its number gets the same id
 * each time. Only the connection's secret makes ids, so no reader of the connection's id can occupy the next one.
 */
export async function newSessionId(client: Client, number: number | undefined): Promise<string> {
  if (number === undefined) return crypto.randomUUID();
  const { secret, hasPublicIds } = secretOf(client);
  if (hasPublicIds) {
    const before = await publicUuid(`${client.state.connection}/${number}`);
    // The connection itself says that it asked for this session; the session checks the same.
    if (client.sessions().includes(before)) return before;
  }
  return derivedUuid(secret, `session/${number}`);
}

export type SessionIdSecret = { readonly secret: string; readonly hasPublicIds?: true | undefined };

export function newSessionIdSecret(): SessionIdSecret {
  return { secret: [0, 1].map(() => crypto.randomUUID()).join("/") };
}

/** The connection's secret. A connection of an earlier build has none, and may have opened sessions under public ids. */
function secretOf(client: Client): SessionIdSecret {
  const { sessionIds } = client.state;
  if (sessionIds) return sessionIds;
  const made: SessionIdSecret = { ...newSessionIdSecret(), hasPublicIds: true };
  client.change({ sessionIds: made });
  return made;
}
