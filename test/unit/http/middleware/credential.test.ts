import { describe, expect, test } from "vitest";
import { agreedProtocol, credentialOf, sessionCookie } from "../../../../src/http/middleware/credential.ts";

function request(headers: Record<string, string>, query = ""): Request {
  return { url: `https://edge.test/acp${query}`, headers: new Headers(headers) } as Request;
}

const SESSION_COOKIE = sessionCookie("https://edge.test/");

describe("credentialOf", () => {
  test.each<[string, Request, object | undefined]>([
    ["the Authorization header", request({ Authorization: "Bearer t" }), { token: "t", sentBy: "bearer" }],
    [
      "a subprotocol",
      request({ "Sec-WebSocket-Protocol": "acp-edge, acp-edge.token.t" }),
      { token: "t", sentBy: "bearer" },
    ],
    ["the query", request({}, "?token=t"), { token: "t", sentBy: "bearer" }],
    ["Cloudflare Access", request({ "Cf-Access-Jwt-Assertion": "t" }), { token: "t", sentBy: "access" }],
    ["the cookie", request({ Cookie: `a=b; ${SESSION_COOKIE}=t` }), { token: "t", sentBy: "cookie" }],
    [
      "no cookie that a plain connection could have set",
      request({ Cookie: "acp_edge_session=t" }),
      undefined,
    ],
    ["nothing", request({ Cookie: "a=b", Authorization: "Basic x" }), undefined],
  ])("reads a token from %s", (_place, from, credential) => {
    expect(credentialOf(from)).toEqual(credential);
  });

  test("prefers the token that the bearer sent over one that the browser added", () => {
    const headers = {
      Authorization: "Bearer mine",
      Cookie: `${SESSION_COOKIE}=t`,
      "Cf-Access-Jwt-Assertion": "u",
    };
    expect(credentialOf(request(headers))).toEqual({ token: "mine", sentBy: "bearer" });
  });
});

describe("agreedProtocol", () => {
  test("agrees on our subprotocol and never on the token's", () => {
    expect(agreedProtocol(request({ "Sec-WebSocket-Protocol": "acp-edge.token.t, acp-edge" }).headers)).toBe(
      "acp-edge",
    );
    expect(agreedProtocol(request({ "Sec-WebSocket-Protocol": "acp-edge.token.t" }).headers)).toBeUndefined();
  });
});
