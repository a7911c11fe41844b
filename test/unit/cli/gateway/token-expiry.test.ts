import { expect, test } from "vitest";
import { tokenExpiry } from "../../../../src/cli/gateway/token-expiry.ts";
import { ExtensionMethod } from "../../../../src/protocol/extensions.ts";

const warning = (params: unknown) =>
  JSON.stringify({ jsonrpc: "2.0", method: ExtensionMethod.tokenExpiring, params });

test("a token warning tells when the token expires", () => {
  expect(tokenExpiry(warning({ expiresAt: "2026-01-01T00:00:00.000Z" }))).toBe(Date.UTC(2026, 0, 1));
});

test("a token warning without a readable time means now", () => {
  const before = Date.now();
  for (const params of [{}, { expiresAt: "soon" }, undefined])
    expect(tokenExpiry(warning(params))).toBeGreaterThanOrEqual(before);
});

test("no other line is a token warning, even if it names the method", () => {
  expect(tokenExpiry('{"jsonrpc":"2.0","method":"session/update","params":{}}')).toBeUndefined();
  const quoted = {
    jsonrpc: "2.0",
    method: "session/update",
    params: { text: ExtensionMethod.tokenExpiring },
  };
  expect(tokenExpiry(JSON.stringify(quoted))).toBeUndefined();
});
