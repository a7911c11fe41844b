import { CHAIN_RESPONSE_MS, callObject } from "../durable/object-call.ts";
import { REFUSAL } from "../protocol/internal-headers.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";

/** The answer of an object that has accepted a socket. */
export type SocketResponse = Response & { readonly webSocket: WebSocket };

/**
 * Asks an object for a socket. An object that answers with neither a socket nor a refusal has failed. A socket that an
 * object has accepted before it was reset is gone, so the request may be repeated.
 */
export async function requestSocket(
  find: () => Pick<Fetcher, "fetch">,
  headers: Record<string, string>,
): Promise<Result<SocketResponse>> {
  const response = await callObject(
    find,
    (object) => object.fetch("https://object/", { headers: { Upgrade: "websocket", ...headers } }),
    { timeoutMs: CHAIN_RESPONSE_MS },
  );
  if (hasSocket(response)) return accepted(response);
  const refusal = REFUSAL.read(response.headers);
  if (refusal) return refused(refusal);
  throw new Error(`An object answered ${response.status} to a request for a socket`);
}

function hasSocket(response: Response): response is SocketResponse {
  return response.webSocket !== null;
}
