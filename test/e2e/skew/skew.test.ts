/** Two releases at the same time, as every deploy brings them together for minutes. */
import type { RequestPermissionResponse } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BadNetwork } from "../bad-network.ts";
import { Client, loggedUpdates, readLog } from "../client.ts";
import { chunks, openEditor } from "../editor.ts";
import { eventually } from "../gateway.ts";
import { streamed, textOf, upTo } from "../updates.ts";
import { CLASSES, everyRole, Stage } from "./stage.ts";

/** Methods that the release calls within their own objects only. */
const CALLED_WITHIN = ["TenantState.countSockets"];

const allow: RequestPermissionResponse = { outcome: { outcome: "selected", optionId: "allow" } };

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.start({ cast: everyRole("new") });
});
afterAll(() => stage?.[Symbol.asyncDispose]());

test("every method that objects of the old release call is still there", async () => {
  const removed = await stage.removedMethods();
  expect(removed.filter((method) => !CALLED_WITHIN.includes(method))).toEqual([]);
});

describe.each([...CLASSES, "Worker", "host"])("%s", (role) => {
  describe.each([
    ["old", "new"],
    ["new", "old"],
  ] as const)("of the %s release among the %s one", (own, others) => {
    beforeAll(() => stage.restart({ ...everyRole(others), [role]: own }));

    test("plain clients have turns, permissions, a queue and a replay", plainClients);
    test("a resumable client loses and repeats nothing when its network fails", resumableClient);
    test("a session is listed, exported and imported", transfer);
    test("the objects ran these builds", async () => {
      const builds = CLASSES.map((name) => `${name} ${name === role ? own : others}`);
      expect([...(await stage.started())].filter((name) => builds.includes(name)).sort()).toEqual(
        builds.sort(),
      );
    });
  });
});

async function plainClients(): Promise<void> {
  await using client = await Client.connect(stage);
  client.onPermission = () => allow;
  const session = await client.newSession();
  const turns = [
    client.prompt(session, "/stream 40 60 2"),
    client.prompt(session, "/permission"),
    client.prompt(session, "/tool search\n/plan\n/think Hm."),
  ];
  for (const turn of turns) expect((await turn).stopReason).toBe("end_turn");
  expect(streamed(client.updates(session))).toEqual(upTo(40));
  expect(textOf(client.updates(session))).toContain("Permission selected: allow\n");

  const cancelled = client.prompt(session, "/slow 60");
  await client.hears(session, "tick 1 ");
  await client.cancel(session);
  expect((await cancelled).stopReason).toBe("cancelled");

  await using second = await Client.connect(stage, { over: "http" });
  await second.load(session);
  expect(textOf(second.updates(session))).toContain("Permission selected: allow\n");
  expect((await second.prompt(session, "/stream 10 20")).stopReason).toBe("end_turn");
  const log = await readLog(stage, session);
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
  expect(streamed(loggedUpdates(log))).toEqual([...upTo(40), ...upTo(10)]);
}

async function resumableClient(): Promise<void> {
  await using way = await BadNetwork.to(stage.url);
  const editor = await openEditor(way.url(stage.wsUrl), stage.token);
  const session = await editor.newSession();
  way.after(2_000, () => {
    way.cut();
    way.after(3_000, () => way.cut());
  });
  expect(await editor.prompt(session, "/stream 60 120 3")).toEqual({ stopReason: "end_turn" });
  expect(await editor.prompt(session, "/permission Do it")).toEqual({ stopReason: "end_turn" });
  expect(chunks(await editor.end())).toEqual(upTo(60));
}

async function transfer(): Promise<void> {
  await using client = await Client.connect(stage);
  const session = await client.newSession();
  await client.prompt(session, "/stream 5 20");
  const exported = await stage.api(`/api/sessions/${session}/export?format=acpx`);
  expect(exported.status).toBe(200);
  const imported = await stage.api("/api/sessions/import?as=new", {
    method: "POST",
    body: await exported.arrayBuffer(),
  });
  const { sessionId: copy } = (await imported.json()) as { sessionId: string };
  expect(imported.status).toBe(201);
  await client.load(copy);
  expect(streamed(client.updates(copy))).toEqual(upTo(5));
  expect((await client.prompt(copy, "/stream 3 20")).stopReason).toBe("end_turn");
  await eventually(async () => {
    const { sessions } = (await (await stage.api("/api/sessions")).json()) as {
      sessions: { sessionId: string }[];
    };
    return [session, copy].every((id) => sessions.some(({ sessionId }) => sessionId === id));
  });
}
