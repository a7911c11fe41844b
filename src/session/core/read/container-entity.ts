import { fileUri } from "../../../protocol/dialects/file-uri.ts";
import { MetaKey } from "../../../protocol/extensions.ts";
import { type Frame, paramsOf } from "../../../protocol/frame.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import type { SessionState } from "../state/state.ts";

/** The session under the names of the container data model. `state` and `workspaceState` are in every view. */
export type ContainerEntity = {
  sessionId: string;
  workspaceUri: string | null;
  mode: "conversation" | "development";
  createdAt: number;
  lastActiveAt: number;
};

/** `opening` is the request that opened the session; a client of the data model names the mode in it. */
export function containerEntity(state: SessionState, opening: Frame | undefined): ContainerEntity {
  const { sessionId, createdAt, activeAt, run, identity } = state;
  const cwd = run?.root ?? identity?.cwd;
  const mode = opening && recordOf(paramsOf(opening)._meta)[MetaKey.sessionMode];
  return {
    sessionId,
    workspaceUri: cwd === undefined ? null : fileUri(cwd),
    mode: mode === "conversation" ? mode : "development",
    createdAt,
    lastActiveAt: activeAt,
  };
}
