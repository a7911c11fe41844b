/** The header by which the Worker shows the gateway's process that a request is its own. */
export const LOOPBACK_SECRET = "acp-edge-loopback-secret";
