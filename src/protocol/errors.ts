import { clipMessage } from "./clipped-text.ts";

/** JSON-RPC error codes, as ACP numbers them, and two of our own. */
export const ErrorCode = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  requestCancelled: -32800,
  authRequired: -32000,
  notFound: -32002,
  /** Ours: the token is valid but lacks the right. -32000 would make an editor ask for a login. */
  forbidden: -32003,
  /** Ours: a limit or a quota is reached. */
  tooMany: -32004,
} as const;

export type RpcError = { code: number; message: string; data?: unknown };

/** The error of a request that failed for a reason that is ours. The log has the reason; the client does not get it. */
export const INTERNAL_ERROR: RpcError = { code: ErrorCode.internal, message: "Internal error" };

/** A response to a request; `idText` is the request's id as its sender wrote it. */
export function errorResponse(idText: string, error: RpcError): string {
  const shown = { ...error, message: clipMessage(error.message) };
  return `{"jsonrpc":"2.0","id":${idText},"error":${JSON.stringify(shown)}}`;
}

export function resultResponse(idText: string, result: unknown): string {
  return `{"jsonrpc":"2.0","id":${idText},"result":${JSON.stringify(result)}}`;
}

export function notification(method: string, params: unknown): string {
  return `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`;
}

/** Longer than the name of any method. */
export const METHOD_CHARS = 100;

/** The refusal of a method that observers may not call. */
export function forbidden(method: string): RpcError {
  const name = method.length > METHOD_CHARS ? `${method.slice(0, METHOD_CHARS)}…` : method;
  return { code: ErrorCode.forbidden, message: `${name} is not for observers: they may only read` };
}
