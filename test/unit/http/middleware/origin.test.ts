import { describe, expect, test } from "vitest";
import type { Credential } from "../../../../src/http/middleware/credential.ts";
import { isAllowedOrigin, mayActWith, originOf } from "../../../../src/http/middleware/origin.ts";

const OWN = "https://edge.test";
const FOREIGN = "https://other.test";

/** A request as a browser makes it: Node's own Request drops the headers that only a browser may set. */
function request(headers: Record<string, string>, method = "GET"): Request {
  return { url: `${OWN}/api/sessions`, method, headers: new Headers(headers) } as Request;
}

describe("originOf", () => {
  test.each<[string, Record<string, string>, string]>([
    ["no header of a browser", {}, "unknown"],
    ["the gateway's own origin", { Origin: OWN }, "own"],
    ["another origin", { Origin: FOREIGN }, "foreign"],
    ["an opaque origin", { Origin: "null" }, "foreign"],
    ["a same-origin fetch", { "Sec-Fetch-Site": "same-origin" }, "own"],
    ["a same-site fetch", { "Sec-Fetch-Site": "same-site" }, "foreign"],
  ])("classifies a request with %s", (_title, headers, origin) => {
    expect(originOf(request(headers))).toBe(origin);
  });
});

describe("isAllowedOrigin", () => {
  const ALLOWED_ORIGINS = "https://a.test, https://*.example.com";

  test.each<[string, boolean]>([
    ["https://a.test", true],
    ["https://app.example.com", true],
    ["https://example.com.evil.test", false],
    [FOREIGN, false],
  ])("decides about %s", (Origin, allowed) => {
    expect(isAllowedOrigin({ ALLOWED_ORIGINS }, request({ Origin }))).toBe(allowed);
  });

  test("allows no origin without the variable", () => {
    expect(isAllowedOrigin({}, request({ Origin: FOREIGN }))).toBe(false);
  });
});

describe("mayActWith", () => {
  const may = (sentBy: Credential["sentBy"], headers: Record<string, string>, method?: string) =>
    mayActWith({ token: "t", sentBy }, request(headers, method));

  test("lets a bearer token act from any origin", () => {
    expect(may("bearer", { Origin: FOREIGN }, "POST")).toBe(true);
  });

  test("lets a cookie read without an origin, but not change anything", () => {
    expect(may("cookie", {})).toBe(true);
    expect(may("cookie", {}, "POST")).toBe(false);
    expect(may("cookie", { Origin: OWN }, "POST")).toBe(true);
  });

  test("refuses a cookie from another origin, even to read", () => {
    expect(may("cookie", { Origin: FOREIGN })).toBe(false);
  });

  test("treats a WebSocket as a change", () => {
    expect(may("cookie", { Upgrade: "websocket" })).toBe(false);
    expect(may("cookie", { Upgrade: "websocket", Origin: OWN })).toBe(true);
  });

  test("lets a token of Access act for a program, which sends no origin", () => {
    expect(may("access", {}, "POST")).toBe(true);
    expect(may("access", { Origin: FOREIGN }, "POST")).toBe(false);
  });
});
