import { ErrorCode, errorResponse, type RpcError, resultResponse } from "../../../protocol/errors.ts";
import { isReservedMethod } from "../../../protocol/extensions.ts";
import { paramsOf, type RequestFrame } from "../../../protocol/frame.ts";
import type { Span } from "../../../protocol/json-text.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import { methodTooLong } from "../../../protocol/jsonrpc-faults.ts";
import { ioOf, isMcpMessage, isUnknownIo } from "../../../protocol/methods.ts";
import { abilityFor, badQuestion, QUESTION, questionModeOf } from "../../../protocol/question.ts";
import type { SessionState } from "../state/state.ts";
import { openToClients } from "./agent-requests.ts";
import { recordWithViolations } from "./agent-violations.ts";
import type { Batch } from "./batch.ts";
import { type IoClient, routeToClient } from "./client-files.ts";
import { answerPermission, badPermissionRequest } from "./permissions.ts";
import { rulingOn } from "./policy.ts";
import { askQuestion } from "./questions.ts";
import { idTooLong, tooLarge, tooMany } from "./request-limits.ts";
import { recordToolCall } from "./shown-terminals.ts";

/** Requests of the agent: the host serves them, clients or the policy answer them, or the gateway refuses them. */

export function agentRequest(batch: Batch, frame: RequestFrame, clients: () => readonly IoClient[]): void {
  const { limits } = batch;
  const { method } = frame;
  const open = waitsForClients(batch.state, frame) ? openToClients(batch.state) : [];
  const refusal =
    idTooLong(limits, frame) ??
    methodTooLong(frame, limits.idChars) ??
    reserved(method) ??
    unknownIo(method) ??
    mcpMessage(method) ??
    tooMany(limits, open.length, "Clients have not answered") ??
    tooLargeWith(batch, frame, open);
  if (refusal) {
    refuse(batch, frame, refusal);
    return;
  }
  if (isHostServed(batch.state, method))
    recordWithViolations(batch, () => batch.frame("agent", "in", frame, { stop: "host" }));
  else if (ioOf(method)) askIo(batch, frame, clients());
  else if (method === "session/request_permission") askPermission(batch, frame);
  else if (method === QUESTION && frame.spans.requestId)
    askOne(batch, frame, frame.spans.requestId, clients());
  else if (method === QUESTION) ask(batch, frame);
  else recordWithViolations(batch, () => batch.frame("agent", "in", frame));
}

/** A single request always fits, and small ones together do. Their sizes are in the log and not in the state. */
function tooLargeWith(batch: Batch, frame: RequestFrame, open: readonly number[]): RpcError | undefined {
  if (open.length === 0 || frame.raw.length <= batch.limits.smallChars) return undefined;
  const others = open.flatMap((seq) => batch.findFrame(seq)?.frame ?? []);
  return tooLarge(batch.limits, frame, others);
}

function reserved(method: string): RpcError | undefined {
  const message = `${method} is the gateway's own method`;
  return isReservedMethod(method) ? { code: ErrorCode.methodNotFound, message } : undefined;
}

/** Nothing confines the paths of such a method, so the request goes to nobody. */
function unknownIo(method: string): RpcError | undefined {
  const message = `${method} is not a method for files or terminals that ACP has`;
  return isUnknownIo(method) ? { code: ErrorCode.methodNotFound, message } : undefined;
}

/** No client is told that the agent takes MCP servers over ACP, so no client has one. */
function mcpMessage(method: string): RpcError | undefined {
  const message = `${method}: no client has an MCP server for this agent`;
  return isMcpMessage(method) ? { code: ErrorCode.methodNotFound, message } : undefined;
}

function waitsForClients(state: SessionState, { method, value }: RequestFrame): boolean {
  if (method === "session/request_permission") return rulingOn(state, value.params) === undefined;
  return !isHostServed(state, method);
}

/** The host serves files and terminals in place of a client, unless the workspace has decided otherwise. */
function isHostServed({ run }: SessionState, method: string): boolean {
  return ioOf(method) !== undefined && run?.io !== "client";
}

function askIo(batch: Batch, frame: RequestFrame, clients: readonly IoClient[]): void {
  const found = routeToClient(batch.state, frame, clients);
  if ("refusal" in found) {
    refuse(batch, frame, found.refusal);
    return;
  }
  recordWithViolations(batch, () => batch.frame("agent", "in", frame, found.route));
}

/** Answers a request of the agent with an error. */
export function refuse(batch: Batch, frame: RequestFrame, error: RpcError): number {
  const re = batch.frame("agent", "in", frame, { stop: "gateway" });
  batch.frame("gateway", "out", errorResponse(frame.idText, error), { re });
  return re;
}

/** Asks clients for a permission, unless the workspace's policy has the answer. */
function askPermission(batch: Batch, frame: RequestFrame): void {
  const params = paramsOf(frame);
  const problem = badPermissionRequest(params);
  if (problem !== undefined) return refuseViolation(batch, frame, problem);
  const ruling = rulingOn(batch.state, params);
  const seq = recordToolCall(batch, recordOf(params.toolCall), (route) =>
    recordWithViolations(batch, () =>
      batch.frame("agent", "in", frame, ruling ? { ...route, stop: "gateway" } : route),
    ),
  );
  batch.fact("gateway", "permission.requested", {
    request: seq,
    toolCall: params.toolCall ?? null,
    options: params.options ?? [],
  });
  if (ruling) answerPermission(batch, seq, ruling.outcome, ruling.decision);
}

/** Asks every person who can answer. */
function ask(batch: Batch, frame: RequestFrame): void {
  const problem = badQuestion(paramsOf(frame));
  if (problem === undefined) askQuestion(batch, frame);
  else refuseViolation(batch, frame, problem);
}

/** Refuses a request that nobody could answer, and logs that the agent broke a rule. */
function refuseViolation(batch: Batch, frame: RequestFrame, problem: string): void {
  const code = ErrorCode.invalidParams;
  const seq = refuse(batch, frame, { code, message: problem });
  const violation = { detailCode: "malformed_request", violation: "malformedRequest", frame: seq };
  batch.fact("gateway", "error", { origin: "agent", code, message: problem, ...violation });
}

/**
 * Sends a question about a client's request to that client, which knows the request by another id. Nobody else can answer
 * such a question, so it is declined if the client cannot.
 */
function askOne(batch: Batch, frame: RequestFrame, { start, end }: Span, clients: readonly IoClient[]): void {
  const { connection, id } = batch.state.awaitingAgent[frame.raw.slice(start, end)] ?? {};
  if (connection === undefined || id === undefined) {
    refuse(batch, frame, { code: ErrorCode.invalidParams, message: "No client waits for that request" });
    return;
  }
  const mode = questionModeOf(paramsOf(frame));
  const client = clients.find((one) => one.connection === connection);
  if (mode !== undefined && client?.abilities?.includes(abilityFor(mode))) {
    batch.frame("agent", "in", frame, { to: connection, requestId: id });
    return;
  }
  const re = batch.frame("agent", "in", frame, { stop: "gateway" });
  batch.frame("gateway", "out", resultResponse(frame.idText, { action: "decline" }), { re });
}
