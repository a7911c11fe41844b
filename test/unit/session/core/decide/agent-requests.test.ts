import { describe, expect, test } from "vitest";
import { ASK_ALWAYS } from "../../../../../src/protocol/permission-policy.ts";
import { ioClientGone } from "../../../../../src/session/core/decide/client-files.ts";
import { choosePermission } from "../../../../../src/session/core/decide/permissions.ts";
import { expireRequests, nextTimeout, setPolicy } from "../../../../../src/session/core/decide/policy.ts";
import { brief, lastMessage, openSession, payloadOf, type SessionScript } from "../session-script.ts";

/** A session in which the agent waits for a permission. */
function asking(): { session: SessionScript; seq: number; id: string } {
  const session = openSession();
  session.prompt("go");
  const seq = session.askPermission("p")[0]?.seq as number;
  return { session, seq, id: `${session.state.sessionId}:${seq}` };
}

describe("a permission request", () => {
  test("is put to clients and logged as a fact", () => {
    const session = openSession();
    session.prompt("go");
    const events = session.askPermission("p");
    expect(brief(events)).toEqual(["agent in session/request_permission", "permission.requested"]);
    expect(session.state.awaitingClient[events[0]?.seq as number]).toMatchObject({ by: "client", id: '"p"' });
  });

  test("is answered by the first client, and the others are told", () => {
    const { session, seq, id } = asking();
    const result = { outcome: { outcome: "selected", optionId: "yes" } };
    const events = session.client({ id, result }, "c2");
    expect(brief(events)).toEqual([
      "client out response",
      "permission.responded",
      "gateway in $/cancel_request",
    ]);
    expect(payloadOf(events, "permission.responded")).toMatchObject({
      request: seq,
      by: "c2",
      subject: "me",
    });
    expect(events[2]).toMatchObject({ route: { re: seq, except: "c2" } });
    expect(brief(session.client({ id, result }, "c1"))).toEqual(["client out response stray"]);
  });

  test.each([
    { code: -32601, message: "Method not found" },
    { code: -32603, message: "Terminal not found" },
  ])("stays open when a client answers with the error $code and another may answer", (error) => {
    const { session, seq, id } = asking();
    session.answering = ["c1", "c2"];
    expect(brief(session.client({ id, error }, "c1"))).toEqual(["client out response declined"]);
    expect(session.state.awaitingClient[seq]?.declined).toEqual(["c1"]);
    expect(brief(session.client({ id, error }, "c2"))[0]).toBe("client out response");
  });

  test("is answered by a choice of exactly the given kind", () => {
    const { session, seq } = asking();
    const decision = { by: "rest", why: "answered" };
    let result: unknown;
    session.step((batch) => {
      result = choosePermission(batch, seq, { kind: "allow_always" }, decision);
    });
    expect(result).toMatchObject({ ok: false });
    const events = session.step((batch) => {
      result = choosePermission(batch, seq, { kind: "allow_once" }, decision);
    });
    expect(result).toMatchObject({ ok: true });
    expect(lastMessage(events.slice(0, 1))).toMatchObject({
      id: "p",
      result: { outcome: { outcome: "selected", optionId: "yes" } },
    });
  });

  test("is answered and withdrawn when the agent cancels it", () => {
    const { session, seq } = asking();
    const events = session.agent({ method: "$/cancel_request", params: { requestId: "p" } });
    expect(brief(events)).toEqual([
      "agent in $/cancel_request",
      "gateway out response",
      "permission.withdrawn",
    ]);
    expect(session.state.awaitingClient[seq]).toBeUndefined();
  });
});

describe("the workspace's policy", () => {
  test("answers in place of people, and no client is asked", () => {
    const session = openSession();
    session.step((batch) => setPolicy(batch, { ...ASK_ALWAYS, byKind: { edit: "allow" } }));
    session.prompt("go");
    const events = session.askPermission();
    expect(brief(events)).toEqual([
      "agent in session/request_permission gateway",
      "permission.requested",
      "gateway out response",
      "permission.responded",
    ]);
    expect(payloadOf(events, "permission.responded")).toMatchObject({
      by: "policy",
      outcome: { optionId: "yes" },
      why: "edit is allow by policy",
    });
  });

  test("never allows for always: without allow_once a person is asked", () => {
    const session = openSession();
    session.step((batch) => setPolicy(batch, { ...ASK_ALWAYS, default: "allow" }));
    session.prompt("go");
    const options = [{ optionId: "a", name: "Always", kind: "allow_always" }];
    expect(brief(session.askPermission("p", { options }))).toEqual([
      "agent in session/request_permission",
      "permission.requested",
    ]);
  });

  test("settles the open requests when it changes", () => {
    const { session } = asking();
    const events = session.step((batch) => setPolicy(batch, { ...ASK_ALWAYS, default: "reject" }));
    expect(payloadOf(events, "permission.responded")).toMatchObject({ outcome: { optionId: "no" } });
    expect(brief(session.step((batch) => setPolicy(batch, { ...ASK_ALWAYS, default: "reject" })))).toEqual(
      [],
    );
  });

  test("rejects a request that nobody answered in time", () => {
    const { session } = asking();
    session.step((batch) => setPolicy(batch, { ...ASK_ALWAYS, timeoutMs: 1000 }));
    expect(nextTimeout(session.state)).toBe(session.now + 1000);
    expect(session.step(expireRequests)).toEqual([]);
    session.now += 1000;
    expect(payloadOf(session.step(expireRequests), "permission.responded")).toMatchObject({
      outcome: { optionId: "no" },
      why: "nobody answered within 1000 ms",
    });
    expect(nextTimeout(session.state)).toBeNull();
  });
});

test("a file request whose client is gone for good is answered with an error", () => {
  const session = openSession({}, { io: "client" });
  session.serving = [{ connection: "c1", serves: ["read"], cwd: "/editor" }];
  session.agent({ id: "f", method: "fs/read_text_file", params: { path: "/host/root/a" } });
  const events = session.step((batch) => ioClientGone(batch, "c1"));
  expect(brief(events)).toEqual(["gateway out response", "client.fs.read"]);
  expect(payloadOf(events, "client.fs.read")).toMatchObject({ ok: false });
});

test("a question about a client's request goes to that client under its own id", () => {
  const session = openSession();
  const seq = session.request("_vendor/slow", {}, "c2")[0]?.seq as number;
  const ask = (mode: string) =>
    session.agent({ id: mode, method: "elicitation/create", params: { requestId: seq, mode } });
  session.serving = [{ connection: "c2", serves: [], cwd: null, abilities: ["elicitation.form"] }];
  expect(ask("form")[0]).toMatchObject({ route: { to: "c2", requestId: "1" } });
  expect(lastMessage(ask("url"))).toEqual({ jsonrpc: "2.0", id: "url", result: { action: "decline" } });
  session.serving = [];
  expect(lastMessage(ask("form"))).toEqual({ jsonrpc: "2.0", id: "form", result: { action: "decline" } });
});
