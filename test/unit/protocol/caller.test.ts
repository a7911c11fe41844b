import { describe, expect, test } from "vitest";
import {
  asObserver,
  type Caller,
  hostTokenProblem,
  isHost,
  isReader,
  mayAnswer,
  mayUseWorkspace,
  ownWorkspace,
  roleOf,
  type Scope,
} from "../../../src/protocol/caller.ts";

const caller = (scopes: Scope[], workspaces = ["w"]): Caller => ({
  tenant: "t",
  subject: "s",
  workspaces,
  scopes,
  expires: 0,
});

describe("a caller's scopes", () => {
  test.each<[Scope[], { role: string; reads: boolean; answers: boolean; hosts: boolean }]>([
    [["session:read"], { role: "observer", reads: true, answers: false, hosts: false }],
    [["session:prompt"], { role: "controller", reads: true, answers: false, hosts: false }],
    [
      ["session:prompt", "permission:answer"],
      { role: "controller", reads: true, answers: true, hosts: false },
    ],
    [["permission:answer"], { role: "observer", reads: false, answers: false, hosts: false }],
    [["host"], { role: "observer", reads: false, answers: false, hosts: true }],
  ])("%j decide its role and rights", (scopes, expected) => {
    const one = caller(scopes);
    expect({ role: roleOf(one), reads: isReader(one), answers: mayAnswer(one), hosts: isHost(one) }).toEqual(
      expected,
    );
  });

  test("are reduced to reading for an observer", () => {
    const observer = asObserver(caller(["session:read", "session:prompt", "permission:answer", "share"]));
    expect(observer.scopes).toEqual(["session:read"]);
  });
});

describe("a caller's workspaces", () => {
  test("are names or patterns", () => {
    const one = caller(["session:read"], ["team-*", "mine"]);
    expect(["team-a", "mine", "yours"].map((name) => mayUseWorkspace(one, name))).toEqual([
      true,
      true,
      false,
    ]);
  });

  test("have a default: the first that is a name", () => {
    expect(ownWorkspace(caller([], ["team-*", "mine", "other"]))).toBe("mine");
    expect(ownWorkspace(caller([], ["team-*"]))).toBeUndefined();
  });
});

test.each<[Scope[], string[], string | undefined]>([
  [["session:read", "share"], ["a", "b-*"], undefined],
  [["host"], ["a"], undefined],
  [["host", "share"], ["a"], "it is for a host and for a client"],
  [["host"], ["a", "b"], "a host has exactly one workspace"],
  [["host"], ["a-*"], "a host has exactly one workspace"],
])("a token with %j for %j has the problem %j", (scopes, workspaces, problem) => {
  expect(hostTokenProblem(scopes, workspaces)).toBe(problem);
});
