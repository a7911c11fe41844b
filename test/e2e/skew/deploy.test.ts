/** A deploy and a rollback under open sockets: an object that hibernates wakes with the code of another release. */
import type { RequestPermissionResponse } from "@agentclientprotocol/sdk";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Client, loggedUpdates, readLog } from "../client.ts";
import { chunks, openEditor } from "../editor.ts";
import { streamed, textOf, upTo } from "../updates.ts";
import type { Build } from "./releases.ts";
import { CLASSES, everyRole, Stage } from "./stage.ts";

const allow: RequestPermissionResponse = { outcome: { outcome: "selected", optionId: "allow" } };

/** Every class and the Worker, but not the host: it keeps its sockets and its agents. */
function gatewayOf(build: Build) {
  const { host: _, ...gateway } = everyRole(build);
  return gateway;
}

describe.each([
  ["a deploy", "old", "new"],
  ["a rollback", "new", "old"],
] as const)("%s", (_, from, to) => {
  let stage: Stage;
  beforeEach(async () => {
    stage = await Stage.start({ cast: everyRole(from) });
  });
  afterEach(() => stage?.[Symbol.asyncDispose]());

  test("keeps every socket, and a turn that waits for a permission goes on", async () => {
    const answer = Promise.withResolvers<RequestPermissionResponse>();
    await using client = await Client.connect(stage);
    client.onPermission = () => answer.promise;
    const session = await client.newSession();
    const turn = client.prompt(session, "/stream 20 40\n/permission\n/stream 20 40");
    const queued = client.prompt(session, "/history");
    await client.receives(({ method }) => method === "session/request_permission");
    await using reader = await Client.connect(stage, { over: "http" });
    await reader.load(session);
    const editor = await openEditor(stage.wsUrl, stage.token);
    const other = await editor.newSession();
    const stream = editor.prompt(other, "/stream 300 60 5");
    await editor.reads("000040 ");
    await using watcher = await watch(stage, session);

    await stage.recast(gatewayOf(to));
    answer.resolve(allow);
    expect((await turn).stopReason).toBe("end_turn");
    expect((await queued).stopReason).toBe("end_turn");
    expect(await stream).toEqual({ stopReason: "end_turn" });
    expect((await reader.prompt(session, "/stream 3 40")).stopReason).toBe("end_turn");

    // The host gets the order for another process over its control socket.
    const fresh = await client.newSession();
    expect((await client.prompt(fresh, "/stream 3 40")).stopReason).toBe("end_turn");

    const log = await readLog(stage, session);
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
    expect(streamed(loggedUpdates(log))).toEqual([...upTo(20), ...upTo(20), ...upTo(3)]);
    expect(streamed(client.updates(session))).toEqual([...upTo(20), ...upTo(20), ...upTo(3)]);
    expect(textOf(client.updates(session))).toContain("Permission selected: allow\n");
    const last = log.at(-1)?.seq ?? 0;
    expect(await watcher.read(last)).toEqual(upTo(last).map((index) => index + 1));

    const builds = CLASSES.map((name) => `${name} ${to}`).sort();
    expect([...(await stage.started())].filter((name) => builds.includes(name)).sort()).toEqual(builds);
    // The bridge had no reason to connect again.
    expect(chunks(await editor.end())).toEqual(upTo(300));
    expect(editor.stderr).toBe("");
  });

  test("may come back at once: there and back again loses and repeats nothing", async () => {
    await using client = await Client.connect(stage);
    const session = await client.newSession();
    const turn = client.prompt(session, "/stream 400 60 5");
    for (const [build, reached] of [
      [to, 50],
      [from, 150],
      [to, 250],
    ] as const) {
      await client.hears(session, `${String(reached).padStart(6, "0")} `);
      await stage.recast(gatewayOf(build));
    }
    expect((await turn).stopReason).toBe("end_turn");
    expect(streamed(client.updates(session))).toEqual(upTo(400));
    expect(streamed(loggedUpdates(await readLog(stage, session)))).toEqual(upTo(400));
  });
});

/** Reads the session's log as an event stream. */
async function watch(
  stage: Stage,
  session: string,
): Promise<AsyncDisposable & { read(last: number): Promise<number[]> }> {
  const abort = new AbortController();
  const headers = { accept: "text/event-stream" };
  const response = await stage.api(`/api/sessions/${session}/events`, { headers, signal: abort.signal });
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const seen = () => [...text.matchAll(/^id: ?(\d+)$/gm)].map((match) => Number(match[1]));
  return {
    read: async (last) => {
      while (!seen().includes(last)) {
        const { done, value } = await reader.read();
        if (done) break;
        text += decoder.decode(value, { stream: true });
      }
      return seen();
    },
    [Symbol.asyncDispose]: async () => abort.abort(),
  };
}
