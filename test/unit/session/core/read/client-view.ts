import type { ClientAbility } from "../../../../../src/protocol/client-abilities.ts";
import { recordOf } from "../../../../../src/protocol/json-value.ts";
import type { LogEvent } from "../../../../../src/session/core/events/event.ts";
import { forClient, type Viewer } from "../../../../../src/session/core/read/for-client.ts";
import type { Json, SessionScript } from "../session-script.ts";

/** The messages of a session as a client with certain abilities sees them. */

type Abilities = readonly ClientAbility[];

export function viewer(abilities: Abilities, more: Partial<Viewer> = {}): Viewer {
  return { connection: "c2", replayUntil: 0, answers: true, subscriptions: { abilities }, ...more };
}

/** The messages that a client with these abilities gets. */
export function seen(
  session: SessionScript,
  events: readonly LogEvent[],
  abilities: Abilities = [],
  more: Partial<Viewer> = {},
): Json[] {
  const { sessionId } = session.state;
  return events
    .flatMap((event) => forClient(event, sessionId, viewer(abilities, more)))
    .map((text) => JSON.parse(text) as Json);
}

export const updatesIn = (messages: readonly Json[]) =>
  messages.flatMap(({ params }) => {
    const { update } = recordOf(params);
    return update === undefined ? [] : [recordOf(update)];
  });
export const updates = (...given: Parameters<typeof seen>) => updatesIn(seen(...given));
export const texts = (content: unknown) =>
  (content as Json[]).map((item) => recordOf(item.content).text ?? recordOf(item).type);

export const TERMINAL = (terminalId: string) => ({ type: "terminal", terminalId });
export const TEXT = (text: string) => ({ type: "content", content: { type: "text", text } });
export const OPTION = { id: "model", name: "Model", type: "select", currentValue: "a", options: [] };
export const TOGGLE = { id: "web", name: "Web", type: "boolean", currentValue: true };
