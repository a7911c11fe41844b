import type { SessionOrigin } from "../../../protocol/rpc.ts";
import type { SessionState } from "../state/state.ts";

/** The facts that a copy of the session needs; null until the session is opened. */
export function originOf({ identity, lastSeq, context, run }: SessionState): SessionOrigin | null {
  if (!identity || !lastSeq) return null;
  const { workspace, agent } = identity;
  return {
    workspace,
    agent,
    lastSeq,
    agentSession: context.acpSessionId,
    ...(run && { opening: { rules: run.opening, root: run.root } }),
  };
}
