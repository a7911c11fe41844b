import { describe, expect, test, vi } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { events, eventsText, get, send } from "../fixtures.ts";
import {
  type Asking,
  asking,
  follow,
  isPending,
  JSON_PLEASE,
  linked,
  selected,
  statusOf,
  tokenIn,
  UNTOUCHABLE,
  urlOf,
  withBindings,
} from "./fixtures.ts";

describe("following a link", () => {
  test("gives the agent exactly that answer once, and logs who answered and how", async () => {
    const place = await asking();
    const { agent, client, permission, workspace, sessionId } = place;
    const made = await linked(place);
    const response = await follow(urlOf(made, "always"), "POST");
    expect(response.status).toBe(200);
    const page = await response.text();
    expect(page).toContain("Allowed always");
    expect(page).toContain("Sure");
    expect(page).not.toContain("<button");
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 7, result: selected("always") });
    // A client that shows the request in an editor gets the withdrawal.
    expect(await client.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: permission },
    });
    for (const option of ["always", "yes", "no"]) {
      expect(await statusOf(urlOf(made, option), "POST")).toBe(410);
      expect(await statusOf(urlOf(made, option))).toBe(410);
    }
    const decisions = (await events(workspace, sessionId)).filter(
      ({ kind }) => kind === "permission.responded",
    );
    expect(decisions.map(({ payload }) => payload)).toMatchObject([
      { ...selected("always"), by: "link", subject: "owner", why: "answered" },
    ]);
  });

  test("answers programs in JSON", async () => {
    const place = await asking();
    const { permission: id } = place;
    const made = await linked(place);
    const ask = async (url: string, method = "POST") => {
      const response = await follow(url, method, JSON_PLEASE);
      expect(response.headers.get("Cache-Control")).toBe("no-store");
      return [response.status, await response.json()];
    };
    const gone = { error: { code: "gone", message: expect.any(String) } };
    const unknown = { error: { code: "not_found", message: expect.any(String) } };
    expect(await ask(`${urlOf(made, "yes")}x`)).toEqual([404, unknown]);
    expect(await ask(urlOf(made, "yes"))).toEqual([200, { id, ...selected("yes") }]);
    expect(await ask(urlOf(made, "yes"))).toEqual([410, gone]);
    expect(await ask(urlOf(made, "no"), "GET")).toEqual([410, gone]);
  });

  test("has one winner when several people follow links at the same time", async () => {
    const place = await asking();
    const made = await linked(place);
    const choices = ["yes", "no", "yes", "always", "no", "yes"];
    const statuses = await Promise.all(choices.map((option) => statusOf(urlOf(made, option), "POST")));
    expect(statuses.toSorted()).toEqual([200, 410, 410, 410, 410, 410]);
    const winner = choices[statuses.indexOf(200)] as string;
    expect(await place.agent.line()).toEqual({ jsonrpc: "2.0", id: 7, result: selected(winner) });
    const log = await events(place.workspace, place.sessionId);
    expect(log.filter(({ kind }) => kind === "permission.responded")).toHaveLength(1);
  });

  test("fails when the request was settled in another way", async () => {
    const gone = async (settle: (place: Asking) => Promise<unknown>) => {
      const place = await asking();
      const url = urlOf(await linked(place), "yes");
      await settle(place);
      return [await statusOf(url), await statusOf(url, "POST")];
    };
    const answered = ({ client, agent, permission }: Asking) => {
      client.send(JSON.stringify({ jsonrpc: "2.0", id: permission, result: selected("no") }));
      return agent.line();
    };
    const withdrawn = ({ agent }: Asking) => {
      agent.items('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}');
      return agent.durable();
    };
    const died = ({ agent }: Asking) => {
      agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
      return agent.durable();
    };
    const deleted = ({ client, sessionId }: Asking) => client.request("session/delete", { sessionId });
    for (const settle of [answered, withdrawn, died, deleted])
      expect(await gone(settle), settle.name).toEqual([410, 410]);
  });

  test("fails when the link has expired, without reaching any object", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const place = await asking();
    const url = urlOf(await linked(place, { expiresIn: 10 }), "yes");
    vi.setSystemTime(Date.now() + 9_000);
    expect(await statusOf(url)).toBe(200);
    vi.setSystemTime(Date.now() + 2_000);
    expect(await statusOf(url)).toBe(410);
    expect(await statusOf(url, "POST")).toBe(410);
    expect((await withBindings(UNTOUCHABLE, url, { method: "POST" })).status).toBe(410);
    expect(await isPending(place)).toBe(true);
    vi.useRealTimers();
  });
});

describe("the audit and the logs", () => {
  test("name who made a link and who answered by it, and never contain the link", async () => {
    const consoles = (["log", "info", "warn", "error"] as const).map((name) => vi.spyOn(console, name));
    const place = await asking();
    const { workspace, sessionId, owner } = place;
    const made = await linked(place, {}, { sub: "maker" });
    await statusOf(urlOf(made, "no"));
    // The log has failures too.
    expect((await withBindings(UNTOUCHABLE, urlOf(made, "no"))).status).toBe(500);
    expect(await statusOf(urlOf(made, "no"), "POST")).toBe(200);
    const read = async () => {
      const page = await (await get("/api/audit?limit=1000", owner)).json<{ entries: Json[] }>();
      return page.entries.filter(({ session }) => session === sessionId);
    };
    await vi.waitFor(async () => expect(await read()).toHaveLength(2));
    const request = Number(place.permission.split(":")[1]);
    expect(await read()).toMatchObject([
      {
        kind: "link.made",
        subject: "maker",
        workspace,
        detail: { id: made.id, request, expiresAt: made.expiresAt },
      },
      {
        kind: "permission.answered",
        subject: "maker",
        workspace,
        detail: { request, outcome: JSON.stringify(selected("no").outcome) },
      },
    ]);
    const printed = consoles.flatMap((one) => one.mock.calls).map((line) => JSON.stringify(line));
    expect(printed.join("\n")).toContain("request failed");
    const texts = [
      JSON.stringify(await read()),
      await eventsText(workspace, sessionId),
      await (await get(`/api/sessions/${sessionId}`, owner)).text(),
      printed.join("\n"),
    ];
    for (const { url } of made.links) {
      const [, payload, signature] = tokenIn(url).split(".") as [string, string, string];
      for (const text of texts) {
        expect(text).not.toContain(signature);
        expect(text).not.toContain(payload);
      }
    }
  });

  test("record that somebody followed a revoked link", async () => {
    const place = await asking();
    const sub = crypto.randomUUID();
    const made = await linked(place, {}, { sub });
    await send("POST", "/api/revocations", place.owner, { jti: made.id });
    await statusOf(urlOf(made, "yes"), "POST");
    await vi.waitFor(async () => {
      const page = await get("/api/audit?limit=1000&kind=token.refused", place.owner);
      const { entries } = await page.json<{ entries: Json[] }>();
      expect(entries.find(({ subject }) => subject === sub)).toMatchObject({
        detail: { reason: "revoked link" },
      });
    });
  });
});
