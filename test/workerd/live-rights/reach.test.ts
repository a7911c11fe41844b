import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { TenantState } from "../../../src/tenant/tenant-state.ts";
import type { Opened } from "../fixtures.ts";
import { openSession } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { receiveWebhooks } from "../webhooks/fixtures.ts";
import { ARTEFACTS, MAKINGS, type Owner } from "./artefacts.ts";
import { admin, ask, revoke } from "./fixtures.ts";

receiveWebhooks();

/** Each revocation by what it names. `lifted` is lifted before the artefact is tried. */
const REVOCATIONS = {
  subject: ({ subject }: Owner) => ({ subject }),
  token: ({ jti }: Owner) => ({ jti }),
  "other token": ({ otherJti }: Owner) => ({ jti: otherJti }),
  lifted: ({ subject }: Owner) => ({ subject }),
  session: (_: Owner, { sessionId }: Opened) => ({ session: sessionId }),
} satisfies Record<string, (owner: Owner, place: Opened) => object>;

type Column = keyof typeof REVOCATIONS;
type Expected = Record<Column, "works" | "ends">;

/** Everything by which people and programs reach a session. */
const ACCESS: Expected = {
  subject: "ends",
  token: "ends",
  session: "ends",
  "other token": "works",
  lifted: "works",
};
/** A revoked session keeps its host, and its workspace's administrators hear of it: its work goes on. */
const WORK: Expected = { ...ACCESS, session: "works" };

const TABLE: Record<keyof typeof ARTEFACTS, Expected> = {
  "a token's requests": ACCESS,
  "a WebSocket": ACCESS,
  "a Streamable HTTP stream": ACCESS,
  "a resumable connection": ACCESS,
  "a watcher of live events": ACCESS,
  "a share's requests": ACCESS,
  "a share's socket": ACCESS,
  "a share's live stream": ACCESS,
  "a webhook's deliveries": WORK,
  "the answer links in a webhook's message": ACCESS,
  "an answer link": ACCESS,
  "a link to a question": ACCESS,
  "a host's token": WORK,
  "a host's control socket": WORK,
  "a host link": WORK,
  "a container's token": WORK,
  "the cookie of a login": ACCESS,
};

test("every artefact has a row", () => {
  expect(Object.keys(TABLE)).toEqual(Object.keys(ARTEFACTS));
});

describe.each(Object.entries(TABLE))("%s", (name, expected) => {
  let place: Opened;
  beforeAll(async () => {
    place = await openSession();
  });

  test.each(Object.keys(REVOCATIONS) as Column[])("under a revocation of: %s", async (column) => {
    const { owner, works, again = works } = await (ARTEFACTS[name] as (typeof ARTEFACTS)[string])(place);
    const { id } = await revoke(REVOCATIONS[column](owner, place));
    const lift = async () => ask("DELETE", `/api/revocations/${id}`, await admin({ workspaces: ["*"] }));
    if (column === "lifted") expect((await lift()).status).toBe(204);
    expect(await (column === "lifted" ? again : works)()).toBe(expected[column] === "works");
    await lift();
  });
});

const root = {
  ...{ tenant: "acme", subject: "root", workspaces: ["*"], expires: 0 },
  scopes: ["tenant:admin"] as const,
};

/** Revokes as another Worker would: the cache of this Worker stays outdated. Returns the revocation's id. */
async function revokeElsewhere({ subject }: Owner): Promise<string> {
  const order = { kind: "subject", value: subject, workspace: null, until: null } as const;
  const made = await env.TENANT_DO.getByName("acme").revoke(root, order);
  if (!made.ok) throw new Error(made.refusal.message);
  return made.value.id;
}

const lift = async (id: string) =>
  ask("DELETE", `/api/revocations/${id}`, await admin({ workspaces: ["*"] }));

describe.each(Object.entries(MAKINGS))("%s", (_, { method, prepare, works }) => {
  test("made after the revocation of its maker, by an outdated cache, is refused", async () => {
    setLimits({ revocationCacheMs: 600_000 });
    const place = await openSession();
    const { owner, bearer, make } = await prepare(place);
    expect((await ask("GET", "/api/sessions", bearer)).status).toBe(200);
    const id = await revokeElsewhere(owner);
    expect((await ask("GET", "/api/sessions", bearer)).status).toBe(200);
    const refused = await make();
    expect([refused.status, await refused.json()]).toMatchObject([403, { error: expect.anything() }]);
    await lift(id);
    expect((await make()).status).toBeLessThan(300);
  });

  test("made during the revocation of its maker does not work until that is lifted", async () => {
    const place = await openSession();
    const { owner, make } = await prepare(place);
    const revocations: string[] = [];
    const tenant = TenantState.prototype as unknown as Record<string, (...input: unknown[]) => unknown>;
    const register = tenant[method] as (...input: unknown[]) => unknown;
    // The tenant knows of the thing, and its maker is revoked before the tenant's answer arrives.
    vi.spyOn(tenant, method).mockImplementation(async function (this: unknown, ...input) {
      const answer = await register.apply(this, input);
      revocations.push(await revokeElsewhere(owner));
      return answer;
    });
    const made = await make();
    expect(made.status).toBeLessThan(300);
    const thing = (await made.json()) as Record<string, unknown>;
    if (method === "registerWebhook") expect(thing.pausedReason).toBe("maker-revoked");
    expect(await works(place, thing)).toBe(false);
    expect(revocations).toHaveLength(1);
    for (const id of revocations) await lift(id);
    expect(await works(place, thing)).toBe(true);
  });
});
