import { describe, expect, test } from "vitest";
import { bodyLimitsOf, excessIn } from "../../../../src/http/middleware/request-limits.ts";

const limits = { urlChars: 40, headerChars: 20, bodyBytes: 1000, bodyMs: 60, bodyStallMs: 30 };

describe("excessIn", () => {
  const request = (path: string, headers: Record<string, string> = {}) =>
    new Request(`https://edge.test/${path}`, { headers });

  test("accepts a URL and headers up to their limits", () => {
    expect(excessIn(request("a".repeat(22), { name: "v".repeat(16) }), limits)).toBeUndefined();
  });

  test("finds a URL that is one character too long", () => {
    expect(excessIn(request("a".repeat(23)), limits)).toBe("url");
  });

  test("counts the names and values of all headers", () => {
    expect(excessIn(request("", { a: "v".repeat(10), b: "v".repeat(9) }), limits)).toBe("headers");
  });
});

describe("bodyLimitsOf", () => {
  test.each(["/api/shares", "/answer"])("bounds a body for %s in size and time", (path) => {
    expect(bodyLimitsOf(path, limits)).toEqual({ maxBytes: 1000, totalMs: 60, stallMs: 30 });
  });

  test("lets an import be of any size and take any time, unless it stalls", () => {
    const unlimited = { maxBytes: Number.POSITIVE_INFINITY, totalMs: Number.POSITIVE_INFINITY, stallMs: 30 };
    expect(bodyLimitsOf("/api/sessions/import", limits)).toEqual(unlimited);
  });

  test.each(["/acp", "/answers", "/apiary"])("bounds only the time of a body for %s", (path) => {
    const expected = { maxBytes: Number.POSITIVE_INFINITY, totalMs: 60, stallMs: 30 };
    expect(bodyLimitsOf(path, limits)).toEqual(expected);
  });
});
