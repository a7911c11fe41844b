import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import {
  answerLinksRequest,
  PAGE_QUERY,
  SECRET_NAME,
  shareRequest,
  webhookRequest,
} from "../../../src/protocol/rest.ts";
import { REVOCATION_REQUEST } from "../../../src/protocol/rest-tenant.ts";

describe("a page query", () => {
  test("has a default limit, and reads numbers from text", () => {
    expect(PAGE_QUERY.parse({})).toEqual({ limit: 50 });
    expect(PAGE_QUERY.parse({ limit: "200", cursor: "c" })).toEqual({ limit: 200, cursor: "c" });
    expect(PAGE_QUERY.safeParse({ limit: "201" }).success).toBe(false);
  });
});

describe("a share request", () => {
  test("expires after a day unless it says otherwise", () => {
    const request = shareRequest(DEFAULT_LIMITS).parse({ session: "s" });
    expect(request).toEqual({ session: "s", expiresIn: 86_400, redact: false });
  });

  test("lasts no longer than the limit, not even by default", () => {
    const schema = shareRequest({ shareSeconds: 60 });
    expect(schema.parse({ session: "s" })).toMatchObject({ expiresIn: 60 });
    expect(schema.safeParse({ session: "s", expiresIn: 61 }).success).toBe(false);
  });
});

describe("a request for answer links", () => {
  test("takes the default life and the longest life from the limits", () => {
    const schema = answerLinksRequest({ answerLinkSeconds: 10, answerLinkMaxSeconds: 20 });
    expect(schema.parse({})).toEqual({ expiresIn: 10 });
    expect(schema.safeParse({ expiresIn: 21 }).success).toBe(false);
  });
});

describe("a webhook request", () => {
  const schema = webhookRequest(DEFAULT_LIMITS, "public");

  test("asks for all events unless it names some, in a fixed order and once each", () => {
    const url = "https://hook.test/x";
    expect(schema.parse({ url })).toMatchObject({ links: false, events: { length: 4 } });
    const events = ["agent.failed", "turn.ended", "turn.ended"];
    expect(schema.parse({ url, events }).events).toEqual(["turn.ended", "agent.failed"]);
  });

  test.each([
    "http://hook.test",
    "https://user:pass@hook.test",
    "ftp://hook.test",
    "hook",
    "https://10.0.0.1",
  ])("must not have the address %s", (url) => {
    expect(schema.safeParse({ url }).success).toBe(false);
  });
});

describe("the name of a secret", () => {
  test.each([
    ["API_KEY", true],
    ["_x1", true],
    ["1x", false],
    ["A-B", false],
    ["ACP_EDGE_TOKEN", false],
  ])("is valid or refused: %s", (name, isValid) => {
    expect(SECRET_NAME.safeParse(name).success).toBe(isValid);
  });
});

describe("a revocation request", () => {
  test.each<[string, object, boolean]>([
    ["one target", { jti: "t" }, true],
    ["a target and a future end", { subject: "s", until: "2999-01-01T00:00:00Z" }, true],
    ["a past end", { subject: "s", until: "2001-01-01T00:00:00Z" }, false],
    ["two targets", { jti: "t", subject: "s" }, false],
    ["no target", {}, false],
  ])("is accepted or refused with %s", (_name, request, isValid) => {
    expect(REVOCATION_REQUEST.safeParse(request).success).toBe(isValid);
  });
});
