import { describe, expect, test } from "vitest";
import { mayAttach, routeOf } from "../../../src/connection/route.ts";
import type { Caller } from "../../../src/protocol/caller.ts";
import { clientRequestId } from "../../../src/protocol/ids.ts";
import { frameOf } from "./frames.ts";

const SESSION = "0f8fad5b-d9cb-469f-a165-70867728950e";
const OTHER = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
const CONTROLLER: Caller = {
  tenant: "acme",
  subject: "someone",
  workspaces: ["w"],
  scopes: ["session:read", "session:prompt", "permission:answer"],
  expires: 0,
};
const OBSERVER: Caller = { ...CONTROLLER, scopes: ["session:read"] };

const route = (message: object, caller = CONTROLLER, named?: string) =>
  routeOf(frameOf(message), caller, named);
const request = (method: string, params: object = {}) => ({ id: 1, method, params });

describe("a frame goes to", () => {
  test.each(["session/prompt", "session/load", "session/set_mode", "_anything/else"])(
    "the session that it names: %s",
    (method) => {
      const to = { to: "session", sessionId: SESSION };
      expect(route(request(method, { sessionId: SESSION }))).toEqual(to);
      expect(route({ method, params: { sessionId: SESSION } })).toEqual(to);
    },
  );

  test("the session that the client names beside it, unless the method must name one itself", () => {
    expect(route(request("_extension"), CONTROLLER, OTHER)).toEqual({ to: "session", sessionId: OTHER });
    expect(route(request("session/prompt"), CONTROLLER, OTHER).to).toBe("refusal");
    expect(route(request("_extension", { sessionId: SESSION }), CONTROLLER, OTHER)).toEqual({
      to: "session",
      sessionId: SESSION,
    });
  });

  test("the session whose request it answers, or nowhere", () => {
    const answer = { id: clientRequestId(SESSION, 7), result: {} };
    expect(route(answer)).toEqual({ to: "session", sessionId: SESSION });
    expect(route({ id: "unknown", result: {} })).toEqual({ to: "nowhere" });
    // A session in the result is not the session that asked.
    expect(route({ id: "unknown", result: { sessionId: OTHER } })).toEqual({ to: "nowhere" });
  });

  test("all sessions, if it cancels a request", () => {
    expect(route({ method: "$/cancel_request", params: { requestId: 1 } })).toEqual({ to: "all-sessions" });
  });

  test("the connection's own methods", () => {
    expect(route(request("session/list"))).toMatchObject({ to: "local-method", method: "session/list" });
    expect(route(request("session/fork", { sessionId: SESSION }))).toMatchObject({
      to: "local-method",
      method: "session/fork",
    });
    expect(route(request("session/new"))).toMatchObject({ to: "new-session" });
    expect(route({ method: "session/new" })).toEqual({ to: "nowhere" });
    expect(route(request("session/delete", { sessionId: SESSION }))).toMatchObject({ to: "deletion" });
    expect(route(request("authenticate"))).toMatchObject({ to: "agent-process" });
    expect(route(request("logout"))).toMatchObject({ to: "agent-process" });
    for (const method of ["session/close", "session/detach", "_acp-edge/detach"])
      expect(route(request(method, { sessionId: SESSION }))).toMatchObject({ to: "departure" });
    for (const method of ["session/status", "session/set_title", "session/archive", "session/unarchive"])
      expect(route(request(method, { sessionId: SESSION }))).toMatchObject({ to: "local-method", method });
  });

  test.each(["auth/status", "providers/list", "providers/set", "providers/disable", "_vendor/x"])(
    "the agent's process, if it names no session: %s",
    (method) => {
      expect(route(request(method))).toMatchObject({ to: "agent-process" });
      expect(route({ method, params: {} })).toEqual({ to: "newest-session" });
    },
  );

  test("nobody, if it uses the gateway's own prefix or MCP over ACP without a session", () => {
    for (const method of ["_acp-edge/unknown", "mcp/message"])
      expect(route(request(method))).toMatchObject({ to: "refusal", error: { code: -32601 } });
  });
});

describe("a frame of an observer", () => {
  test.each([
    ...["session/new", "session/fork", "session/delete", "authenticate", "logout", "session/prompt"],
    ...["session/cancel", "session/set_mode", "_anything/else", "no/such", "auth/status", "providers/set"],
    ...["session/close", "session/set_title", "session/archive", "session/unarchive"],
  ])("gets no further than its connection: %s", (method) => {
    expect(route(request(method, { sessionId: SESSION }), OBSERVER)).toMatchObject({
      to: "refusal",
      error: { code: -32003 },
    });
    expect(route({ method, params: { sessionId: SESSION } }, OBSERVER)).toEqual({ to: "nowhere" });
  });

  test.each(["session/load", "session/resume", "$/cancel_request"])("is no notification: %s", (method) => {
    expect(route({ method, params: { sessionId: SESSION } }, OBSERVER)).toEqual({ to: "nowhere" });
  });

  test("may leave a session, and ask for its status", () => {
    const params = { sessionId: SESSION };
    expect(route(request("session/detach", params), OBSERVER).to).toBe("departure");
    expect(route(request("session/status", params), OBSERVER).to).toBe("local-method");
  });

  test("is no answer to an agent", () => {
    const answer = { id: clientRequestId(SESSION, 7), result: {} };
    expect(route(answer, OBSERVER)).toEqual({ to: "nowhere" });
  });

  test("may ask for the list, and to read a session; the session gets only what it needs for that", () => {
    expect(route(request("session/list"), OBSERVER).to).toBe("local-method");
    const big = "x".repeat(5000);
    const params = { sessionId: SESSION, cwd: big, mcpServers: [{ name: big, env: [] }], extra: big };
    const _meta = { "acp-edge/after": 3, "acp-edge/as": OTHER, other: big };
    const to = route({ id: 7.0, method: "session/load", params: { ...params, _meta } }, OBSERVER);
    expect(to).toMatchObject({ to: "session", sessionId: SESSION });
    const reduced = to.to === "session" ? to.reduced : undefined;
    expect(reduced?.idText).toBe("7");
    expect(reduced?.value.params).toEqual({
      ...{ sessionId: SESSION, cwd: "/", mcpServers: [] },
      _meta: { "acp-edge/after": 3, "acp-edge/as": OTHER },
    });
    expect(route(request("session/load"), OBSERVER)).toMatchObject({ error: { code: -32602 } });
  });
});

describe("a frame of a client", () => {
  test("is refused without a session or a known method", () => {
    expect(route(request("session/prompt"))).toMatchObject({ to: "refusal", error: { code: -32602 } });
    expect(route(request("no/such"))).toMatchObject({ to: "refusal", error: { code: -32601 } });
  });

  test("is refused with a value for an MCP server that no process could get", () => {
    const withValue = (value: string) => ({
      sessionId: SESSION,
      mcpServers: [{ name: "m", command: "m", args: [], env: [{ name: "KEY", value }] }],
    });
    expect(route(request("session/load", withValue("short"))).to).toBe("session");
    expect(route(request("session/load", withValue("x".repeat(128 * 1024 + 1)))).to).toBe("refusal");
  });
});

test("session/new, load, resume and fork may attach the client to another session, and session/prompt does not", () => {
  const attaching = ["session/new", "session/load", "session/resume", "session/fork"];
  expect(attaching.filter((method) => !mayAttach(frameOf(request(method))))).toEqual([]);
  expect(mayAttach(frameOf(request("session/prompt")))).toBe(false);
});
