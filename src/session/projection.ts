import type { SessionState } from "./state.ts";

/** The session as readers see it: `session.json` of the acpx session model, with what ACP adds. */
export function project(state: SessionState): Record<string, unknown> {
  const { identity, run, context } = state;
  return {
    schema: "acpx.session.v1",
    acpxRecordId: state.sessionId,
    agent: { command: run?.command ?? null, name: identity?.agent ?? null },
    workspace: { cwd: run?.root ?? identity?.cwd ?? null, name: identity?.workspace ?? null },
    identity: { acpSessionId: context.acpSessionId, agentSessionId: context.agentSessionId },
    lifecycle: {
      createdAt: iso(state.createdAt),
      lastUsedAt: iso(state.lastAt),
      closed: false,
      closedAt: null,
      pid: run?.pid ?? null,
      agentStartedAt: run?.startedAt == null ? null : iso(run.startedAt),
      lastAgentExit: state.lastExit && { ...state.lastExit, at: iso(state.lastExit.at) },
    },
    log: { firstSeq: 1, lastSeq: state.lastSeq, nextSeq: state.lastSeq + 1 },
    state: sessionStatus(state),
    title: state.title,
    agentStatus: state.agent,
    host: run && { name: run.host, run: run.id, connected: run.connected },
    turn: state.turn && {
      turnId: state.turn.turnId,
      prompt: state.turn.prompt,
      startedAt: iso(state.turn.startedAt),
    },
    turns: state.turns,
    queue: state.queue,
    pendingRequests: Object.entries(state.asking).map(([seq, { method, by }]) => ({
      seq: Number(seq),
      method,
      by,
    })),
    lastError: state.lastError,
  };
}

export function sessionStatus({ agent }: SessionState): "active" | "error" {
  return agent === "failed" ? "error" : "active";
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
