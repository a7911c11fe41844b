import { isUuid } from "./ids.ts";
import { eachMember, isObjectAt, isStringAt, skipSpace, skipValue } from "./json-text.ts";

/**
 * The ids under which clients know the sessions of an agent's sub-agents: the id of the session whose agent made them, a
 * slash, and the agent's own id. The id says by itself where a message belongs, so there is no table, and no agent can
 * make an id that is another session's.
 */
export function childSessionId(sessionId: string, agentId: string): string | undefined {
  // A lone surrogate has no encoding.
  if (agentId === "" || !agentId.isWellFormed()) return undefined;
  const id = `${sessionId}/${encodeURIComponent(agentId)}`;
  return id.length <= ID_CHARS ? id : undefined;
}

/** The session of a child, and the agent's own id of the child. */
export type ChildSession = { readonly sessionId: string; readonly agentId: string };

export function parseChildSessionId(id: string): ChildSession | undefined {
  const sessionId = id.slice(0, UUID_CHARS);
  if (id[UUID_CHARS] !== "/" || !isUuid(sessionId)) return undefined;
  const agentId = decoded(id.slice(UUID_CHARS + 1));
  // Of all texts that decode to an agent's id, one is the id.
  return agentId !== undefined && childSessionId(sessionId, agentId) === id
    ? { sessionId, agentId }
    : undefined;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

const UUID_CHARS = 36;
/** Longer ids are refused everywhere. */
const ID_CHARS = 1024;

/**
 * A `session/update` whose update names sessions, with `translate` applied to each of the agent's ids in it. An id that
 * has no translation becomes null.
 */
export function translateNamedSessions(
  raw: string,
  translate: (agentId: string) => string | undefined,
): string {
  let [out, from] = ["", 0];
  const replace = (start: number): number => {
    const end = skipValue(raw, start);
    if (!isStringAt(raw, start)) return end;
    const id = translate(JSON.parse(raw.slice(start, end)) as string);
    out += raw.slice(from, start) + (id === undefined ? "null" : JSON.stringify(id));
    from = end;
    return end;
  };
  const within = (start: number, visit: (key: string, at: number) => number): number =>
    isObjectAt(raw, start) ? eachMember(raw, start, visit) : skipValue(raw, start);
  const skip = (at: number) => skipValue(raw, at);
  const update = (at: number) =>
    within(at, (key, value) => (NAMING_MEMBERS.has(key) ? replace(value) : skip(value)));
  const params = (at: number) => within(at, (key, value) => (key === "update" ? update(value) : skip(value)));
  within(skipSpace(raw, 0), (key, at) => (key === "params" ? params(at) : skip(at)));
  return out + raw.slice(from);
}

/** The members of an update that name sessions: those of `subagent_update` and `session_message`. */
const NAMING_MEMBERS: ReadonlySet<string> = new Set(["sessionId", "senderSessionId", "recipientSessionId"]);
