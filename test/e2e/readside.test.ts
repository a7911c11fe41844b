/** Sessions and their logs over plain HTTP. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client, type LogEvent, parse, RawClient } from "./client.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { upTo } from "./updates.ts";

let gateway: Gateway;
/** A session with every source of events in its log, and a log longer than one page. */
let session: string;
beforeAll(async () => {
  gateway = await startGateway();
  const client = await Client.connect(gateway);
  client.onPermission = () => ({ outcome: { outcome: "selected", optionId: "allow" } });
  session = await client.newSession();
  await client.prompt(session, "/title A title\n/permission\n/edit file.txt text\n/garbage");
  await client.prompt(session, "/image 2mb\n/stream 5000 300");
  await client.close();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const getJson = async <T>(path: string): Promise<T> => {
  const response = await gateway.api(path);
  expect(response.headers.get("content-type")).toMatch(/^application\/json/);
  expect(response.status).toBe(200);
  return (await response.json()) as T;
};

const getLines = async (path: string): Promise<string[]> => {
  const response = await gateway.api(path);
  expect(response.headers.get("content-type")).toMatch(/^application\/x-ndjson/);
  expect(response.status).toBe(200);
  const text = await response.text();
  if (text !== "") expect(text.at(-1)).toBe("\n");
  return text.split("\n").slice(0, -1);
};

const events = (query = "", id = session) => getLines(`/api/sessions/${id}/events${query}`);

describe("the log of a session", () => {
  let lines: string[];
  let log: (LogEvent & Record<string, unknown>)[];
  beforeAll(async () => {
    lines = await events();
    log = lines.map((line) => JSON.parse(line));
  });

  test("consists of envelopes with exactly the fields of acpx.event.v1", () => {
    const fields = [
      "schema",
      "seq",
      "eventId",
      "at",
      "acpxRecordId",
      "acpSessionId",
      "agentSessionId",
      "turnId",
      "requestId",
      "source",
      "kind",
      "payload",
    ];
    for (const event of log) {
      expect(Object.keys(event)).toEqual(fields);
      expect(event).toMatchObject({
        schema: "acpx.event.v1",
        eventId: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/),
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        acpxRecordId: session,
        kind: expect.stringMatching(/^[a-z_]+(\.[a-z_]+)*$/),
        payload: expect.any(Object),
      });
      expect(["client", "agent", "host", "gateway"]).toContain(event.source);
    }
  });

  test("is numbered from 1 without a gap, and no event id occurs twice", () => {
    expect(log.map(({ seq }) => seq - 1)).toEqual(upTo(log.length));
    expect(new Set(log.map(({ eventId }) => eventId)).size).toBe(log.length);
  });

  test("is in the order of time", () => {
    const times = log.map(({ at }) => String(at));
    expect(times).toEqual(times.toSorted());
  });

  test("names the turn of each event that belongs to one", () => {
    const turns = log.filter(({ kind }) => kind === "turn.started").map(({ turnId }) => turnId);
    expect(new Set(turns).size).toBe(2);
    const ofAgent = log.filter(({ payload }) => JSON.stringify(payload.message ?? "").includes("000000 "));
    expect(ofAgent).toMatchObject([{ source: "agent", turnId: turns[1] }]);
  });

  test("tells the story of the session", () => {
    const kinds = new Set(log.map(({ kind }) => kind));
    for (const kind of [
      "acp.frame",
      "session.created",
      "runtime.connected",
      "queue.owner.started",
      "turn.started",
      "turn.completed",
      "permission.requested",
      "permission.responded",
      "client.fs.write",
      "runtime.noise",
    ]) {
      expect(kinds).toContain(kind);
    }
  });

  test("pairs each frame with its direction", () => {
    const frames = log.filter(({ kind }) => kind === "acp.frame");
    for (const { payload, source } of frames) {
      const towardsAgent = payload.direction === "out";
      if (source === "agent") expect(towardsAgent).toBe(false);
      if (source === "client" || source === "host") expect(towardsAgent).toBe(true);
      expect(payload.message).toMatchObject({ jsonrpc: "2.0" });
    }
    const methods = frames.map(({ payload }) => payload.message?.method);
    for (const method of ["initialize", "session/new", "session/prompt", "fs/write_text_file"]) {
      expect(methods).toContain(method);
    }
  });

  test.each([1, 2, 97, 1000, 100_000])("is the same in pages of %i", async (limit) => {
    // Pages of one event would take long and show no more.
    const wanted = limit < 10 ? lines.slice(0, 60) : lines;
    const paged: string[] = [];
    while (paged.length < wanted.length) {
      const page = await events(`?after=${paged.length}&limit=${limit}`);
      expect(page.length).toBe(Math.min(limit, lines.length - paged.length));
      paged.push(...page);
    }
    expect(paged.slice(0, wanted.length)).toEqual(wanted);
  });

  test("is the rest after a number", async () => {
    for (const after of [0, 1, lines.length - 1, lines.length, lines.length + 1, 1e9]) {
      expect(await events(`?after=${after}`)).toEqual(lines.slice(after));
    }
  });

  test.each(["after=-1", "after=x", "after=1.5", "limit=0", "limit=-1", "limit=x", "after=1&limit=1.5"])(
    "refuses the query %s with 400",
    async (query) => {
      const response = await gateway.api(`/api/sessions/${session}/events?${query}`);
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { code: "bad_request" } });
    },
  );
});

test("[I2] payload.message is the peer's own text", async () => {
  await using client = await RawClient.initialized(gateway);
  const sessionId = await client.newSession(gateway.root);
  const id = "12345678901234567890";
  const update = `{ "sessionUpdate":"_odd", "big":98765432109876543210, "one":1.0, "e":1E2, "t":"\\u00e9\\/" ,"z":null}`;
  const prompt =
    `{ "params" : {"_meta":{"n":1.10,"id":"no","sessionId":"no"},"prompt":[{"text":${JSON.stringify(`/raw ${update}`)},"type":"text"}],` +
    `"sessionId":"${sessionId}"}, "method":"session\\/prompt","id":${id},"jsonrpc":"2.0" }`;
  const response = client.texts.until(
    (text) => parse(text).result !== undefined,
    client.texts.entries.length,
  );
  client.send(prompt);
  expect(await response).toContain(`"id":${id}`);

  const log = (await events("", sessionId)).join("\n");
  expect(log).toContain(`"message":${prompt}`);
  expect(log).toContain(`"update":${update}`);
  expect(client.texts.entries).toContainEqual(expect.stringContaining(`"update":${update}`));
});

test("a frame with line breaks takes one line", async () => {
  await using client = await RawClient.initialized(gateway);
  const sessionId = await client.newSession(gateway.root);
  const params = { sessionId, prompt: [{ type: "text", text: "two\nlines" }] };
  const response = client.texts.until((text) => parse(text).id === "x", client.texts.entries.length);
  client.send(JSON.stringify({ jsonrpc: "2.0", id: "x", method: "session/prompt", params }, null, "\r\n  "));
  expect(parse(await response).result).toEqual({ stopReason: "end_turn" });
  const log = (await events("", sessionId)).map((line) => JSON.parse(line) as LogEvent);
  const prompts = log.filter(({ payload }) => payload.message?.id === "x");
  expect(prompts).toMatchObject([{ source: "client", payload: { message: { params } } }]);
});

test("a session is described by the projection of its log", async () => {
  const described = await getJson<{ log: { lastSeq: number } }>(`/api/sessions/${session}`);
  expect(described).toMatchObject({
    schema: "acpx.session.v1",
    acpxRecordId: session,
    agent: { name: "demo" },
    workspace: { name: "local" },
    identity: { acpSessionId: expect.stringMatching(/^demo-/) },
    lifecycle: { closed: false, pid: expect.any(Number) },
    title: "A title",
    turn: null,
    turns: { total: 2 },
    queue: [],
  });
  const lines = await events();
  expect(described.log.lastSeq).toBe(lines.length);
});

describe("the session list", () => {
  type Page = { sessions: Record<string, unknown>[]; nextCursor: string | null };

  test("has each session with its title", async () => {
    // The index follows the log with a delay.
    await eventually(async () => {
      const { sessions } = await getJson<Page>("/api/sessions");
      return sessions.some(({ sessionId, title }) => sessionId === session && title === "A title");
    });
    const { sessions } = await getJson<Page>("/api/sessions");
    expect(sessions.find(({ sessionId }) => sessionId === session)).toMatchObject({
      workspace: "local",
      agent: "demo",
      state: "active",
      createdAt: expect.stringMatching(/Z$/),
      updatedAt: expect.stringMatching(/Z$/),
      lastSeq: expect.any(Number),
    });
  });

  test("is the same in pages, newest first", async () => {
    await using client = await Client.connect(gateway);
    const added = [await client.newSession(), await client.newSession(), await client.newSession()];
    const ids = ({ sessions }: Page) => sessions.map(({ sessionId }) => sessionId);
    await eventually(async () => {
      const listed = ids(await getJson<Page>("/api/sessions"));
      return added.every((id) => listed.includes(id));
    });
    // Rows of the index move while it catches up, so the test compares it before and after.
    await eventually(async () => {
      const whole = await getJson<Page>("/api/sessions");
      const paged: unknown[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const query: string = cursor && `&cursor=${encodeURIComponent(cursor)}`;
        const page: Page = await getJson<Page>(`/api/sessions?limit=2${query}`);
        paged.push(...ids(page));
        cursor = page.nextCursor;
      }
      expect(whole.nextCursor).toBeNull();
      expect(paged).toEqual(ids(whole));
      const times = whole.sessions.map(({ updatedAt }) => String(updatedAt));
      expect(times).toEqual(times.toSorted().toReversed());
      return true;
    });
  });

  test.each(["limit=0", "limit=x", "limit=1000"])("refuses the query %s with 400", async (query) => {
    expect((await gateway.api(`/api/sessions?${query}`)).status).toBe(400);
  });
});

test.each(["", "/events"])("an unknown session%s is answered with 404", async (part) => {
  for (const id of [randomUUID(), "no-uuid", `${session}x`]) {
    const response = await gateway.api(`/api/sessions/${id}${part}`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: "not_found" } });
  }
});

test("a request without a token learns nothing", async () => {
  for (const path of ["/api/sessions", `/api/sessions/${session}`, `/api/sessions/${session}/events`]) {
    const response = await fetch(`${gateway.url}${path}`);
    expect(response.status).toBe(401);
    expect(await response.text()).not.toContain("acpx");
  }
});
