/** Rows about logins. */
import { expect } from "vitest";
import { type Candidate, Skip } from "../candidate.ts";
import type { Row } from "../row.ts";

type Method = { id: string; type?: string };

async function methodsOf(candidate: Candidate): Promise<Method[]> {
  const { result } = await candidate.initialized();
  return ((result as { authMethods?: Method[] }).authMethods ?? []) as Method[];
}

export const AUTHENTICATION_ROWS: Row[] = [
  {
    id: "ACP-AUTH-001",
    tier: "advisory",
    requires: "the ids of the ways to log in differ",
    async check(candidate) {
      const ids = (await methodsOf(candidate)).map(({ id }) => id);
      expect(new Set(ids).size).toBe(ids.length);
    },
  },
  {
    id: "ACP-AUTH-002",
    tier: "mandatory",
    requires: "a client that cannot open a terminal for it is offered no login in a terminal",
    async check(candidate) {
      expect((await methodsOf(candidate)).filter(({ type }) => type === "terminal")).toEqual([]);
    },
  },
  {
    id: "ACP-AUTH-003",
    tier: "capability",
    requires: "after a login a new session wants no other",
    async check(candidate) {
      const { login } = candidate.agent;
      if (login === undefined) throw new Skip("the agent knows no login");
      const client = await candidate.client();
      expect(await client.request("authenticate", { methodId: login })).toHaveProperty("result");
      await candidate.session("third");
    },
  },
  {
    id: "ACP-AUTH-004",
    tier: "capability",
    capability: "auth.logout",
    requires: "a logout succeeds",
    async check(candidate) {
      const { result } = await (await candidate.client()).request("logout", {});
      expect(result).toEqual(expect.any(Object));
    },
  },
  {
    id: "ACP-AUTH-005",
    tier: "advisory",
    requires: "an agent that names no way to log in wants no login",
    async check(candidate) {
      if ((await methodsOf(candidate)).length > 0) throw new Skip("the agent names ways to log in");
      await candidate.session("shared");
    },
  },
];
