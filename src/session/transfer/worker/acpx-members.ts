import { isRecord, type JsonObject, recordOf, textOf } from "../../../protocol/json-value.ts";

/**
 * The members of `session.json` that acpx itself writes: its projection of the agent's report, and its list of turns.
 * Both are caches for acpx. The events have every update, so the projection does not repeat them.
 */
export function acpxMembers(session: JsonObject): JsonObject {
  return { acpProjection: acpProjection(session), turnHistory: turnHistory(recordOf(session.turns).recent) };
}

function acpProjection(session: JsonObject): JsonObject {
  const { modes, commands, toolCalls, plan, info, usage, log } = session;
  return {
    schema: "acpx.session.acp.v1",
    lastSeq: recordOf(log).lastSeq ?? null,
    currentModeId: recordOf(modes).current ?? null,
    availableCommands: recordOf(commands).items ?? [],
    toolCalls: recordOf(toolCalls).items ?? [],
    plan: plan ?? null,
    sessionInfo: info ?? null,
    usage: usage ?? null,
  };
}

/** Previews of the latest turns, as acpx lists them. A prompt that waits, or was dropped, began no turn. */
function turnHistory(recent: unknown): JsonObject[] {
  const turns = Array.isArray(recent) ? recent.filter(isRecord) : [];
  return turns
    .filter(({ startedAt }) => startedAt !== null)
    .flatMap(({ startedAt, endedAt, promptPreview, replyPreview }) => [
      { role: "user", timestamp: startedAt, textPreview: textOf(promptPreview) ?? "" },
      ...(textOf(replyPreview)
        ? [{ role: "assistant", timestamp: endedAt ?? startedAt, textPreview: replyPreview }]
        : []),
    ]);
}
