/** Every code that closes a WebSocket here: those of RFC 6455 with their meaning for us, and our own from 4400 on. */
export const CloseCode = {
  /** The peer or the gateway is done. From a host or a resumable client: it does not come back. */
  normal: 1000,
  /** The client was silent for too long. */
  goingAway: 1001,
  /** The client sent a message before `initialize`, or did not initialize in time. */
  protocolError: 1002,
  /** Never sent: the peer closed without a code. */
  absent: 1005,
  /** Never sent: the connection broke without a close. */
  lost: 1006,
  /** The client exceeded its quota, or sent an id that is too long. */
  policyViolation: 1008,
  /** The gateway failed. */
  internalError: 1011,
  /** The gateway's code was replaced by a release that cannot continue this socket; the peer connects anew. */
  serviceRestart: 1012,
  /** A resumable client asks for more than it reads and may come back at once; or a workspace has too many hosts. */
  tryAgainLater: 1013,
  /** Never sent: TLS failed. */
  tlsFailed: 1015,
  /** The peer sent a message that is not of its wire. */
  badMessage: 4400,
  /** The token expired or was revoked. The peer may come back with another token. */
  unauthorized: 4401,
  /** The session does not exist any more: its host stops the agent. */
  sessionGone: 4404,
  /** The gateway gave this socket up: it is silent, or the same peer has a newer one. The peer may come back. */
  abandoned: 4408,
  /**
   * Another run took over the session, or another host took over the name. Or a process says hello that the workspace
   * has placed on another host, or with another server of files and terminals.
   */
  superseded: 4409,
  /** Another host of this name is alive, or serves the process with another token. The host may come back. */
  nameInUse: 4410,
  /** The host speaks another LINK_VERSION. */
  linkVersion: 4426,
} as const;

const NEVER_SENT: ReadonlySet<number> = new Set([CloseCode.absent, CloseCode.lost, CloseCode.tlsFailed]);

/** Answers a peer's close, as the protocol asks. */
export function answerClose(
  ws: { close(code: number, reason: string): void },
  code: number,
  reason: string,
): void {
  ws.close(NEVER_SENT.has(code) ? CloseCode.normal : code, reason);
}
