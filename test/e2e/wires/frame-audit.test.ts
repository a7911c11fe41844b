/** The audit that other suites rely on finds what it should. */
import { expect, test } from "vitest";
import { audit, describeFaults, withoutPassedOn } from "./frame-audit.ts";

const frame = (by: string, message: object) => ({ by, text: JSON.stringify({ jsonrpc: "2.0", ...message }) });

const NEW = frame("client", { id: 1, method: "session/new", params: { cwd: "/", mcpServers: [] } });

test("an exchange by the schema has no faults, and extensions may say what they like", () => {
  const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "hi" } };
  const exchange = [
    NEW,
    frame("server", { id: 1, result: { sessionId: "s" } }),
    frame("server", { method: "session/update", params: { sessionId: "s", update } }),
    frame("client", { id: 2, method: "_vendor/anything", params: { free: true } }),
    frame("server", { id: 2, result: 7 }),
    frame("server", { id: 1, method: "fs/read_text_file", params: { sessionId: "s", path: "/a" } }),
    frame("client", { id: 1, error: { code: -32601, message: "no" } }),
  ];
  expect(audit(exchange)).toEqual([]);
});

test.each([
  ["a result without a required member", frame("server", { id: 1, result: {} })],
  ["a result and an error", frame("server", { id: 1, result: {}, error: { code: 1, message: "" } })],
  ["an answer to no request", frame("server", { id: 9, result: {} })],
  ["an unknown method", frame("server", { method: "session/unknown" })],
  ["a wrong update", frame("server", { method: "session/update", params: { sessionId: "s" } })],
  ["text that is not JSON", { by: "server", text: "{" }],
  ["a foreign member", frame("server", { id: 1, result: { sessionId: "s" }, extra: 1 })],
])("%s is a fault of its sender", (_, wrong) => {
  const found = audit([NEW, wrong]);
  expect(found.length).toBeGreaterThan(0);
  expect(found.every(({ by }) => by === "server")).toBe(true);
  expect(describeFaults(found)[0]).toMatch(/^server: /);
});

test("a fault that the agent had made before is passed on, and others are not", () => {
  const ofAgent = audit([NEW, frame("agent", { id: 1, result: {} })]);
  const atClient = audit([
    NEW,
    frame("server", { id: 1, result: {} }),
    frame("server", { method: "session/unknown" }),
  ]);
  expect(withoutPassedOn(atClient, ofAgent).map(({ fault }) => fault)).toEqual([
    "session/unknown: not in the schema",
  ]);
});
