import { gatewayNotice } from "../protocol/extensions.ts";
import { mustReadFrame } from "../protocol/frame.ts";
import type { Page } from "../protocol/rpc.ts";

/**
 * The page of session `sessionId` without the frames that name another session of this client: an agent speaks for its own
 * session only. A notice takes the place of such a frame, so that the page keeps its marks. Only sessions of release 0.1.0
 * send such frames; later ones name every other session as a child of their own.
 */
export function withoutImpostors(page: Page, sessionId: string, sessions: () => readonly string[]): Page {
  if (!page.namesOthers) return page;
  const others = new Set(sessions().filter((id) => id !== sessionId));
  const frames = page.frames.map((raw) => {
    const named = mustReadFrame(raw).sessionId;
    return named !== undefined && others.has(named) ? dropped(sessionId) : raw;
  });
  return { ...page, frames };
}

function dropped(sessionId: string): string {
  return gatewayNotice(sessionId, "agent.violation", "A message of the agent to another session was dropped");
}
