import { describe, expect, test } from "vitest";
import { OPEN_RULES } from "../../../../../src/protocol/opening-rules.ts";
import {
  hostHello,
  type LinkToken,
  mayReplace,
} from "../../../../../src/session/core/decide/host-greeting.ts";
import { openSession } from "../session-script.ts";

const token = (subject: string, jti: string, host?: string): LinkToken => ({ subject, jti, host });

describe("the living socket of a process", () => {
  test.each([
    ["its own token", token("a", "1"), token("a", "1"), true],
    ["its own token with a name", token("a", "1", "h1"), token("a", "1", "h1"), true],
    ["a renewed token with the name", token("a", "1", "h1"), token("a", "2", "h1"), true],
    ["a renewed token that first names the host", token("a", "1"), token("a", "2", "h1"), true],
    ["a token with the name, over one that has none", token("b", "1"), token("a", "2", "h1"), true],
    ["another token without a name", token("a", "1"), token("a", "2"), false],
    ["a token without a name, over one that has it", token("a", "1", "h1"), token("a", "2"), false],
    ["a token without name and id, over one with a name", token("a", "", "h1"), token("a", ""), false],
    ["a token of another subject", token("a", "1"), token("b", "1"), false],
    ["a token of another subject with the name", token("a", "1", "h1"), token("b", "2", "h1"), false],
  ])("is replaced by a socket with %s, or is not", (_, holder, newcomer, may) => {
    expect(mayReplace(holder, newcomer)).toBe(may);
  });
});

test("a refused hello for the running process changes nothing", () => {
  const session = openSession();
  const { run, processRequest } = session.state;
  if (!run) throw new Error("no run");
  const hello = { run: run.id, agent: "codex", host: run.host, root: "/", processRequest, delivered: 0 };
  let refusal: string | undefined;
  const events = session.step((batch) => {
    const placement = { host: run.host, io: "host", opening: OPEN_RULES } as const;
    refusal = hostHello(batch, { t: "hello", ...hello, draining: true, io: "client" }, placement);
  });
  expect(refusal).toContain("served by the client");
  expect(events).toEqual([]);
  expect(session.state.run).toMatchObject({ id: run.id, connected: true, draining: false });
});
