/**
 * The id under which clients know an agent's request: the session and the sequence number of the request in its log.
 * The id itself says where an answer belongs, so there is no table to keep, to lose or to mix up.
 */
export function clientRequestId(sessionId: string, seq: number): string {
  return `${sessionId}:${seq}`;
}

/** The two halves of a client request id. */
export type AgentRequest = { sessionId: string; seq: number };

export function parseClientRequestId(id: unknown): AgentRequest | undefined {
  const [, sessionId, seq] = (typeof id === "string" && CLIENT_REQUEST_ID.exec(id)) || [];
  return sessionId === undefined ? undefined : { sessionId, seq: Number(seq) };
}

const CLIENT_REQUEST_ID = /^([0-9a-f-]{36}):(\d{1,15})$/;

export function isUuid(id: string): boolean {
  return UUID.test(id);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
