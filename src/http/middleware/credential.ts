/** A token, and whether the bearer sent it: browsers add some by themselves, whoever's page makes the request. */
export type Credential = { token: string; sentBy: "bearer" | "cookie" | "access" };

/** The cookie of the page. */
export const SESSION_COOKIE = "acp_edge_session";

/** What clients of a WebSocket name as the protocol; one of this form beside it has the token. */
const SUBPROTOCOL = "acp-edge";
const TOKEN_PROTOCOL = "acp-edge.token.";

/** The token of a request, wherever it is. */
export function credentialOf(request: Request): Credential | undefined {
  const { headers } = request;
  const sent =
    /^Bearer +(\S+)$/i.exec(headers.get("Authorization") ?? "")?.[1] ??
    protocolsOf(headers)
      .find((name) => name.startsWith(TOKEN_PROTOCOL))
      ?.slice(TOKEN_PROTOCOL.length) ??
    // Browsers cannot set headers on a WebSocket or an event stream.
    new URL(request.url).searchParams.get("token");
  if (sent) return { token: sent, sentBy: "bearer" };
  // Set by Cloudflare Access, from its own cookie or from a service token.
  const access = headers.get("Cf-Access-Jwt-Assertion");
  if (access) return { token: access, sentBy: "access" };
  const cookie = cookieOf(headers, SESSION_COOKIE);
  return cookie ? { token: cookie, sentBy: "cookie" } : undefined;
}

function cookieOf(headers: Headers, name: string): string | undefined {
  for (const pair of (headers.get("Cookie") ?? "").split(";")) {
    const [key, value] = pair.trim().split("=", 2);
    if (key === name && value) return value;
  }
  return undefined;
}

function protocolsOf(headers: Headers): string[] {
  return (headers.get("Sec-WebSocket-Protocol") ?? "").split(",").map((name) => name.trim());
}

/** The protocol to agree on, if the client offers ours; a browser hangs up when it offers some and gets none. */
export function agreedProtocol(headers: Headers): string | undefined {
  return protocolsOf(headers).find((name) => name === SUBPROTOCOL);
}
