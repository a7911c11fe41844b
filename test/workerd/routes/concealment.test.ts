import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { clientRequestId } from "../../../src/protocol/ids.ts";
import { openSession, sessionStub, workspaceName } from "../fixtures.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { ALL_OF_A_CLIENT, type Claims, mint } from "../tokens.ts";
import { fetchAs, makePlace, type Place, sharedPlace } from "./place.ts";
import { baseFor, ROUTES, statusOf } from "./table.ts";

describe("foreign and unknown resources", () => {
  const unknown = (place: Place): Place => {
    const sessionId = crypto.randomUUID();
    const seqOf = (id: string) => Number(id.split(":")[1]);
    return {
      ...place,
      sessionId,
      permission: clientRequestId(sessionId, seqOf(place.permission)),
      question: clientRequestId(sessionId, seqOf(place.question)),
      connection: crypto.randomUUID(),
      resumable: crypto.randomUUID(),
      webhook: "wh_unknown",
    };
  };
  const withIds = Object.entries(ROUTES).flatMap(([route, one]) =>
    [one].flat().flatMap((each, n) => {
      const hides = each.group["other workspace"] === 404 && each.differs["other tenant"] === undefined;
      return hides && !route.includes("import") && !route.includes("control")
        ? [[`${route} ${n}`, each] as const]
        : [];
    }),
  );

  test("are tried on every route that names a session or a connection", () => {
    expect(withIds.length).toBeGreaterThanOrEqual(9);
  });

  test.each(withIds)("look the same on %s", async (_route, each) => {
    const place = await sharedPlace();
    const base = baseFor(each, place.workspace);
    const answer = async (at: Place, claims: Claims) => {
      const bearer = await mint(claims);
      const response = await fetchAs(each.ask(at, bearer), bearer);
      return { status: response.status, headers: [...response.headers], body: await response.text() };
    };
    const nothing = await answer(unknown(place), base);
    expect(nothing.status).toBe(404);
    expect(await answer(place, { ...base, tenant: "other" })).toEqual(nothing);
    expect(await answer(place, { ...base, workspaces: ["elsewhere"] })).toEqual(nothing);
  });

  test("[I12] take the same path: nothing of a session is read for a caller that may not know it", async () => {
    const place = await makePlace();
    const session = sessionStub(place.sessionId);
    // The damaged log makes every reader fail; an alarm would fail again and again.
    const spoil = (change: string) =>
      runInDurableObject(session, async (_, { storage }) => {
        storage.sql.exec(`UPDATE log SET heads = ${change}`);
        await storage.deleteAlarm();
      });
    await spoil("'spoilt' || heads");
    await evictDurableObject(session);
    const ask = { path: `/api/sessions/${place.sessionId}` };
    const status = async (claims: Claims) => statusOf(await fetchAs(ask, await mint(claims)));
    const claims = { workspaces: [place.workspace], scopes: ALL_OF_A_CLIENT };
    expect(await status({ ...claims, workspaces: ["elsewhere"] })).toBe(404);
    expect(await status({ ...claims, scopes: ["session:read"], tenant: "other" })).toBe(404);
    expect(await status(claims)).toBe(500);
    await spoil("substr(heads, 7)");
    expect(await status(claims)).toBe(200);
  });

  test("look the same to a client on an open connection", async () => {
    const { sessionId } = await openSession();
    const workspace = workspaceName();
    await Host.join(workspace);
    const stranger = await Client.open(workspace);
    const answers = async (id: string) => {
      const said: string[] = [];
      for (const method of ["load", "resume", "prompt", "close", "delete", "fork", "set_mode"]) {
        const params = { sessionId: id, cwd: "/", mcpServers: [], prompt: [], modeId: "m" };
        const { id: _id, ...response } = (await stranger.request(`session/${method}`, params)).response;
        said.push(JSON.stringify(response).replaceAll(id, "<id>"));
      }
      return said;
    };
    expect(await answers(sessionId)).toEqual(await answers(crypto.randomUUID()));
  });
});
