import { expect, test } from "vitest";
import { ExtensionMethod, gatewayNotice, MetaKey } from "../../../src/protocol/extensions.ts";
import { mustReadFrame } from "../../../src/protocol/frame.ts";
import { sourceFiles, sourceText } from "../../fixtures/source-files.ts";

test("every extension method and key has its prefix", () => {
  for (const method of Object.values(ExtensionMethod)) expect(method).toMatch(/^_acp-edge\/[a-z_]+$/);
  for (const key of Object.values(MetaKey)) expect(key).toMatch(/^acp-edge\/[a-zA-Z]+$/);
});

test("a gateway notice is a session update with the kind and the text of the notice", () => {
  const notice = mustReadFrame(gatewayNotice("s", "runtime.paused", 'Paused: "x"'));
  expect(notice).toMatchObject({ kind: "notification", method: "session/update", sessionId: "s" });
  expect(notice.value.params).toEqual({
    sessionId: "s",
    update: {
      sessionUpdate: "session_info_update",
      _meta: { "acp-edge/event": "runtime.paused", "acp-edge/message": 'Paused: "x"' },
    },
  });
});

test("no other source file spells the name of an extension", () => {
  const names = [...Object.values(ExtensionMethod), ...Object.values(MetaKey)].map((name) => `"${name}"`);
  const spelled = sourceFiles("src")
    .filter((path) => path !== "src/protocol/extensions.ts")
    .filter((path) => names.some((name) => sourceText(path).includes(name)));
  expect(spelled).toEqual([]);
});
