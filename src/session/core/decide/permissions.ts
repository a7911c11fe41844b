import { resultResponse } from "../../../protocol/errors.ts";
import { clientRequestId } from "../../../protocol/ids.ts";
import { isRecord, type JsonObject, recordOf, textOrNull } from "../../../protocol/json-value.ts";
import type { PermissionChoice, PermissionOption } from "../../../protocol/permission.ts";
import { accepted, type Result, refused, unknownPermission } from "../../../protocol/refusal.ts";
import type { SessionState } from "../state/state.ts";
import { findToolCall } from "../state/tool-calls.ts";
import type { Batch } from "./batch.ts";
import { withdraw } from "./withdrawal.ts";

/** Answers to the agent's permission requests that no client's own frame gives: over REST, by a link, by the policy. */

/** The author and the reason of a decision. `by` is a connection, or the name of whatever else decided. */
export type Decision = { by: string; subject?: string; why: string };

export type Outcome = { outcome: "selected"; optionId: string } | { outcome: "cancelled" };

export function optionsIn(params: unknown): PermissionOption[] {
  const options = isRecord(params) && Array.isArray(params.options) ? params.options.filter(isRecord) : [];
  return options.flatMap(({ optionId, kind, name }) =>
    typeof optionId === "string" ? [{ optionId, kind: textOrNull(kind), name: textOrNull(name) }] : [],
  );
}

/** The reason why nobody can answer a permission request with these parameters, if there is one. */
export function badPermissionRequest({ toolCall, options }: JsonObject): string | undefined {
  if (!isRecord(toolCall)) return "params.toolCall must be an object";
  const isList =
    Array.isArray(options) && options.every((option) => typeof recordOf(option).optionId === "string");
  return isList ? undefined : "params.options must be a list of objects with an optionId";
}

/**
 * The kinds of tool that a request concerns: its own `kind`, and that of the tool call it names. They may differ, and
 * the request must not talk a tool call down.
 */
export function toolKindsIn({ report }: SessionState, params: unknown): [string, ...string[]] {
  const toolCall = isRecord(params) && isRecord(params.toolCall) ? params.toolCall : {};
  const announced = findToolCall(report, toolCall.toolCallId)?.kind;
  const own = textOrNull(toolCall.kind) ?? announced ?? "other";
  return announced === undefined || announced === own ? [own] : [own, announced];
}

/** A choice by kind means exactly that kind: "once" is never widened to "always". */
export function choosePermission(
  batch: Batch,
  seq: number,
  choice: PermissionChoice,
  decision: Decision,
): Result<undefined> {
  const { awaitingClient, sessionId } = batch.state;
  if (!awaitingClient[seq]?.permission) return refused(unknownPermission(clientRequestId(sessionId, seq)));
  const options = optionsIn(batch.frameAt(seq).frame.value.params);
  const chosen = options.find((option) =>
    "optionId" in choice ? option.optionId === choice.optionId : option.kind === choice.kind,
  );
  if (!chosen) return refused({ reason: "no-option", message: noOption(choice), options });
  answerPermission(batch, seq, { outcome: "selected", optionId: chosen.optionId }, decision);
  return accepted();
}

function noOption(choice: PermissionChoice): string {
  return "optionId" in choice
    ? `There is no option ${JSON.stringify(choice.optionId)}`
    : `The request has no option of the kind ${choice.kind}`;
}

/** Gives the agent the gateway's own answer to a permission request. */
export function answerPermission(batch: Batch, seq: number, outcome: Outcome, decision: Decision): void {
  const pending = batch.state.awaitingClient[seq];
  if (!pending) return;
  const answer = batch.frame("gateway", "out", resultResponse(pending.id, { outcome }), { re: seq });
  batch.fact("gateway", "permission.responded", { request: seq, answer, outcome, ...decision });
  if (!pending.hidden) withdraw(batch, seq, pending, decision.by);
}
