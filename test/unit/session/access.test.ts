import { describe, expect, test } from "vitest";
import type { Caller, Scope } from "../../../src/protocol/caller.ts";
import { Access, mayOpenIn } from "../../../src/session/access.ts";

const OWNER = { tenant: "acme", workspace: "backend", sessionId: "s1" };

class Store {
  readonly values = new Map<string, unknown>();

  get<T>(key: string): T | undefined {
    return this.values.get(key) as T | undefined;
  }

  put<T>(key: string, value: T): void {
    this.values.set(key, value);
  }

  delete(key: string): boolean {
    return this.values.delete(key);
  }
}

function accessTo({ tenant, workspace, sessionId } = OWNER, store = new Store()): Access {
  const access = new Access(store);
  const identity = { tenant, workspace, owner: "someone", agent: "demo", cwd: "/", request: 1 };
  access.setOwnerOnce({ identity, sessionId });
  return access;
}

function caller(scopes: Scope[], more: Partial<Caller> = {}): Caller {
  return { tenant: "acme", subject: "someone", workspaces: ["backend"], scopes, expires: 0, ...more };
}

describe("access to a session", () => {
  test("needs a session in the object", () => {
    const access = new Access(new Store());
    expect(access.owner).toBeUndefined();
    expect(access.mayRead(caller(["session:read"]))).toBe(false);
    expect(access.isWithinReach(caller(["session:read"]))).toBe(false);
  });

  test.each<[string, Caller, { read: boolean; steer: boolean; serve: boolean }]>([
    ["a reader", caller(["session:read"]), { read: true, steer: false, serve: false }],
    ["a controller", caller(["session:prompt"]), { read: true, steer: true, serve: false }],
    ["a host", caller(["host"]), { read: false, steer: false, serve: true }],
    ["a caller without scopes", caller([]), { read: false, steer: false, serve: false }],
    [
      "a controller of another tenant",
      caller(["session:prompt"], { tenant: "other" }),
      { read: false, steer: false, serve: false },
    ],
    [
      "a controller of another workspace",
      caller(["session:prompt"], { workspaces: ["frontend"] }),
      { read: false, steer: false, serve: false },
    ],
    [
      "a controller of a matching pattern",
      caller(["session:prompt"], { workspaces: ["back*"] }),
      { read: true, steer: true, serve: false },
    ],
    [
      "a host of another workspace",
      caller(["host"], { workspaces: ["frontend"] }),
      { read: false, steer: false, serve: false },
    ],
    [
      "a reader with a link to the session",
      caller(["session:read"], { session: "s1" }),
      { read: true, steer: false, serve: false },
    ],
    [
      "a reader with a link to another session",
      caller(["session:read"], { session: "s2" }),
      { read: false, steer: false, serve: false },
    ],
  ])("is decided for %s", (_, who, { read, steer, serve }) => {
    const access = accessTo();
    expect(access.mayRead(who)).toBe(read);
    expect(access.maySteer(who)).toBe(steer);
    expect(access.mayServe(who)).toBe(serve);
  });

  test("ends with a revocation, except for administrators and hosts", () => {
    const access = accessTo();
    access.revoke();
    expect(access.mayRead(caller(["session:read"]))).toBe(false);
    expect(access.maySteer(caller(["session:prompt"]))).toBe(false);
    expect(access.mayRead(caller(["session:read", "workspace:admin"]))).toBe(true);
    expect(access.mayServe(caller(["host"]))).toBe(true);
    access.restore();
    expect(access.mayRead(caller(["session:read"]))).toBe(true);
  });

  test("is remembered by the object's storage", () => {
    const store = new Store();
    accessTo(OWNER, store).revoke();
    const woken = new Access(store);
    expect(woken.owner).toEqual(OWNER);
    expect(woken.isRevoked).toBe(true);
    woken.restore();
    expect(new Access(store).isRevoked).toBe(false);
  });

  test("is forgotten with the session", () => {
    const access = accessTo();
    access.revoke();
    access.forget();
    expect(access.owner).toBeUndefined();
    expect(access.isRevoked).toBe(false);
  });
});

test("only a controller may open sessions, in workspaces of its own", () => {
  expect(mayOpenIn("backend", caller(["session:prompt"]))).toBe(true);
  expect(mayOpenIn("frontend", caller(["session:prompt"]))).toBe(false);
  expect(mayOpenIn("backend", caller(["session:read"]))).toBe(false);
});
