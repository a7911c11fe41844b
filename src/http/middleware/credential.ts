/**
 * The token of a request, and who put it there. A browser adds cookies and the assertion of Access by itself, for
 * every page that makes a request.
 */
export type Credential = { token: string; sentBy: "bearer" | "cookie" | "access" };

/**
 * The name of the cookie of the gateway's own page. A browser takes a name with this prefix only from the very host it is
 * sent to, over https: no other subdomain and no plain connection can plant it.
 */
export function sessionCookie(url: string): string {
  return new URL(url).protocol === "https:" ? "__Host-acp_edge_session" : "acp_edge_session";
}

/** The WebSocket subprotocol of the gateway. A client may offer its token as a second one with the prefix. */
const SUBPROTOCOL = "acp-edge";
const TOKEN_PROTOCOL = "acp-edge.token.";

export function credentialOf(request: Request): Credential | undefined {
  const { headers } = request;
  const sent =
    /^Bearer +(\S+)$/i.exec(headers.get("Authorization") ?? "")?.[1] ??
    protocolsOf(headers)
      .find((name) => name.startsWith(TOKEN_PROTOCOL))
      ?.slice(TOKEN_PROTOCOL.length) ??
    // A browser cannot set headers for a WebSocket or an EventSource.
    new URL(request.url).searchParams.get("token");
  if (sent) return { token: sent, sentBy: "bearer" };
  // Cloudflare Access sets this header, for its own cookie or for a service token.
  const access = headers.get("Cf-Access-Jwt-Assertion");
  if (access) return { token: access, sentBy: "access" };
  const cookie = cookieToken(request);
  return cookie ? { token: cookie, sentBy: "cookie" } : undefined;
}

export function cookieToken({ headers, url }: Request): string | undefined {
  return cookieOf(headers, sessionCookie(url));
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

/**
 * Our subprotocol, if the client offers it, or else the first one that is no token: a client fails a socket whose offers
 * are all ignored.
 */
export function agreedProtocol(headers: Headers): string | undefined {
  const offered = protocolsOf(headers).filter((name) => name !== "" && !name.startsWith(TOKEN_PROTOCOL));
  return offered.find((name) => name === SUBPROTOCOL) ?? offered[0];
}
