import { assertNever } from "./assert-never.ts";
import { ErrorCode, type RpcError } from "./errors.ts";
import type { PermissionOption } from "./permission.ts";
import type { FieldProblem } from "./question.ts";

/**
 * The outcome of a call that may be refused. Results cross Durable Object RPC, so they are plain data; an exception
 * is for faults only. `R` is another kind of refusal where the caller needs more than a reason for the wire.
 */
export type Result<T, R = Refusal> = Accepted<T> | Refused<R>;
export type Accepted<T> = { ok: true; value: T };
export type Refused<R = Refusal> = { ok: false; refusal: R };

/**
 * Why a request is refused, in the terms of the domain. `message` is for the person or program that asked. Two
 * mappers translate refusals for the wire: `rpcErrorOf` below, and `httpErrorOf` in http/refusal-response.ts.
 */
export type Refusal =
  /** The thing does not exist, or the caller may not know that it does. `data` repeats the id that was asked for. */
  | { reason: "not-found"; message: string; data?: Readonly<Record<string, string>> }
  /** The thing existed, and is gone for good. */
  | { reason: "gone"; message: string }
  /** The caller's token is revoked. */
  | { reason: "unauthorized"; message: string }
  /** The caller's token is valid, but does not allow this. */
  | { reason: "forbidden"; message: string }
  /** The request itself is wrong. */
  | { reason: "invalid"; message: string }
  /** The permission request has no such option; `options` are those it has. */
  | { reason: "no-option"; message: string; options: PermissionOption[] }
  /** The answer does not fit the form of the question; `fields` says where. */
  | { reason: "bad-answer"; message: string; fields: FieldProblem[] }
  /** The workspace has no such agent; `agents` are the ids of those it has. */
  | { reason: "no-agent"; message: string; agents: string[] }
  /** The request contradicts what is stored: an id is taken, or a collection is full. */
  | { reason: "conflict"; message: string }
  /** The caller has used up a rate or a quota, or all places are taken. `retryAfterMs` is set if the wait is known. */
  | { reason: "too-many"; message: string; retryAfterMs?: number | undefined }
  /** This deployment lacks the configuration for the feature. */
  | { reason: "not-configured"; message: string }
  /** Something that the request depends on does not respond. */
  | { reason: "unavailable"; message: string; retryAfterMs?: number | undefined };

export function accepted(): Accepted<undefined>;
export function accepted<T>(value: T): Accepted<T>;
export function accepted<T>(value?: T): Accepted<T | undefined> {
  return { ok: true, value };
}

export function refused<R = Refusal>(refusal: R): Refused<R> {
  return { ok: false, refusal };
}

/** The refusal as a JSON-RPC error. */
export function rpcErrorOf(refusal: Refusal): RpcError {
  const { message } = refusal;
  switch (refusal.reason) {
    case "not-found": {
      const { data } = refusal;
      return { code: ErrorCode.notFound, message, ...(data && { data }) };
    }
    case "gone":
      return { code: ErrorCode.notFound, message };
    case "unauthorized":
    case "forbidden":
      return { code: ErrorCode.forbidden, message };
    case "invalid":
    case "no-option":
    case "bad-answer":
      return { code: ErrorCode.invalidParams, message };
    case "no-agent":
      return { code: ErrorCode.invalidParams, message, data: { agents: refusal.agents } };
    case "conflict":
      return { code: ErrorCode.invalidRequest, message };
    case "too-many": {
      const { retryAfterMs } = refusal;
      return {
        code: ErrorCode.tooMany,
        message,
        ...(retryAfterMs !== undefined && { data: { retryAfterMs } }),
      };
    }
    case "unavailable": {
      const { retryAfterMs } = refusal;
      return {
        code: ErrorCode.internal,
        message,
        ...(retryAfterMs !== undefined && { data: { retryAfterMs } }),
      };
    }
    case "not-configured":
      return { code: ErrorCode.internal, message };
    default:
      return assertNever(refusal);
  }
}

export function unknownSession(sessionId: string): Refusal {
  const data = { sessionId, details: "Session not found" };
  return { reason: "not-found", message: "Unknown session", data };
}

/** The request was answered or withdrawn, never existed, or belongs to a session that the caller may not see. */
export function unknownPermission(requestId: string): Refusal {
  return { reason: "not-found", message: "No such permission is pending", data: { requestId } };
}

/** As `unknownPermission`, for a question. */
export function unknownQuestion(requestId: string): Refusal {
  return { reason: "not-found", message: "No such question is pending", data: { requestId } };
}
