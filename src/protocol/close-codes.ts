/** Closed because the token is good no more: expired, or revoked. With another one the peer may come back. */
export const UNAUTHORIZED = 4401;

/** Closed because nothing was heard of the peer for long. */
export const GOING_AWAY = 1001;

/** Answers a peer's close, as the protocol asks; some codes only stand for the lack of one and cannot be sent. */
export function answerClose(
  ws: { close(code: number, reason: string): void },
  code: number,
  reason: string,
): void {
  ws.close(code === 1005 || code === 1006 || code === 1015 ? 1000 : code, reason);
}
