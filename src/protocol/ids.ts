/**
 * How clients see the ids of an agent's requests: the session and the request's place in its log. The id
 * itself says where the answer belongs, so there is no table to keep, to lose or to mix up.
 */
export function clientRequestId(sessionId: string, seq: number): string {
  return `${sessionId}:${seq}`;
}

export function parseClientRequestId(id: unknown): { sessionId: string; seq: number } | undefined {
  const match = typeof id === "string" ? /^([0-9a-f-]{36}):(\d{1,15})$/.exec(id) : null;
  return match ? { sessionId: match[1] as string, seq: Number(match[2]) } : undefined;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function isUuid(id: string): boolean {
  return UUID.test(id);
}
