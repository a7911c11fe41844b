import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { packTar } from "modern-tar";
import { describe, expect, test, vi } from "vitest";
import { SESSION_SCHEMA } from "../../../src/session/schema.ts";
import type { Json } from "../../fixtures/json.ts";
import { eventsText, sessionStub, workspaceName } from "../fixtures.ts";
import { archive, foreign, OWNER, segments, tarOf, upload } from "./fixtures.ts";

const emptyState = (sessionId: string) =>
  runInDurableObject(sessionStub(sessionId), (_, state) =>
    state.storage.sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE name IN ('log', 'log_part', 'session', 'snapshot', 'client', 'deadline')",
      )
      .toArray(),
  );

describe("a damaged archive", () => {
  const FIRST = "events/000000000001.ndjson";
  const SECOND = "events/000000000002.ndjson";
  const lines = (id: string, ...seqs: number[]) => seqs.map((seq) => `${foreign(id, seq)}\n`).join("");

  type Case = [string, (id: string) => [string, string][], Json];
  const cases: Case[] = [
    [
      "a line that is not JSON",
      (id) => [[FIRST, `${lines(id, 1)}{"oops\n${lines(id, 3)}`]],
      { file: FIRST, line: 2 },
    ],
    ["a line cut short", (id) => [[FIRST, lines(id, 1, 2).slice(0, -20)]], { file: FIRST, line: 2 }],
    ["an empty line", (id) => [[FIRST, `${lines(id, 1)}\n${lines(id, 2)}`]], { file: FIRST, line: 2 }],
    [
      "another schema",
      (id) => [[FIRST, lines(id, 1) + foreign(id, 2, { schema: "acpx.event.v9" })]],
      { file: FIRST, line: 2, message: 'schema must be "acpx.event.v1"' },
    ],
    [
      "a gap",
      (id) => [
        [FIRST, lines(id, 1, 2)],
        [SECOND, lines(id, 5)],
      ],
      { file: SECOND, line: 1, message: "seq 5 follows 2: 2 events are missing here" },
    ],
    ["a repeated number", (id) => [[FIRST, lines(id, 1, 2, 2)]], { file: FIRST, line: 3 }],
    ["a beginning that is missing", (id) => [[SECOND, lines(id, 3, 4)]], { file: SECOND, line: 1 }],
    [
      "an end that is missing",
      (id) => [
        [FIRST, lines(id, 1, 2)],
        ["session.json", JSON.stringify({ acpxRecordId: id, log: { lastSeq: 3 } })],
      ],
      { file: "session.json", message: "the archive says it has 3 events, but the last one is 2" },
    ],
    [
      "an event of another session",
      (id) => [[FIRST, lines(id, 1) + foreign(crypto.randomUUID(), 2)]],
      { file: FIRST, line: 2 },
    ],
    [
      "a session.json of another session",
      (id) => [
        [FIRST, lines(id, 1)],
        ["session.json", `{"acpxRecordId":"other"}`],
      ],
      { file: "session.json", line: 1 },
    ],
    [
      "a payload that is no object",
      (id) => [[FIRST, lines(id, 1) + foreign(id, 2, { payload: [] })]],
      { file: FIRST, line: 2 },
    ],
    ["no events at all", () => [["session.json", "{}"]], { file: null }],
    ["an empty log", () => [[FIRST, ""]], { file: null }],
  ];

  test.each(cases)(
    "is refused with the place of the damage and leaves nothing behind when it has %s",
    async (_, files, where) => {
      const workspace = workspaceName();
      const id = crypto.randomUUID();
      const { status, json } = await upload(await tarOf(files(id)), { workspace });
      expect(status).toBe(400);
      expect(json.error).toMatchObject({ code: "bad_archive", ...where });
      expect(await emptyState(id)).toEqual([]);
      // An undamaged archive is accepted afterwards.
      expect((await upload(await tarOf([[FIRST, lines(id, 1)]]), { workspace })).status).toBe(201);
    },
  );

  test.each<[string, [string, string][], RegExp | undefined]>([
    ["corrupt", [["session.json", "{"]], /^session\.json is not valid JSON/u],
    ["no object", [["session.json", "[]"]], /^session\.json is not a JSON object/u],
    ["missing", [], /^session\.json is missing/u],
    ["behind", [["session.json", '{"log":{"lastSeq":1}}']], /^session\.json ends with event 1/u],
    ["in order", [["session.json", '{"log":{"lastSeq":2}}']], undefined],
  ])(
    "gives the same session from its events, with a warning, when its session.json is %s",
    async (_, more, warning) => {
      const workspace = workspaceName();
      const id = crypto.randomUUID();
      const { status, json } = await upload(await tarOf([[FIRST, lines(id, 1, 2)], ...more]), { workspace });
      expect(status).toBe(201);
      const { warnings } = json as { warnings?: string[] };
      if (warning) expect(warnings).toEqual([expect.stringMatching(warning)]);
      else expect(warnings).toBeUndefined();
      expect(await eventsText(workspace, id)).toContain(lines(id, 1, 2).trim());
    },
  );

  test("is refused and leaves nothing behind when its text is not UTF-8", async () => {
    const workspace = workspaceName();
    const id = crypto.randomUUID();
    const body = new TextEncoder().encode(lines(id, 1, 2));
    body[body.length - 5] = 0xff;
    const tar = await packTar([{ header: { name: FIRST, size: body.length, type: "file" }, body }]);
    const { json } = await upload(tar, { workspace });
    expect(json.error).toMatchObject({ file: FIRST, line: 2, message: "not valid UTF-8" });
    expect(await emptyState(id)).toEqual([]);
  });

  test.each([
    ["in a file", 700],
    ["between files", 1024 + 512],
    ["before its end mark", -1024],
  ])("is refused and leaves nothing behind when its tar is cut off %s", async (_, at) => {
    const workspace = workspaceName();
    const id = crypto.randomUUID();
    const tar = await tarOf([
      [FIRST, lines(id, 1, 2, 3)],
      ["session.json", "{}"],
    ]);
    const { status, json } = await upload(tar.slice(0, at), { workspace });
    expect(status).toBe(400);
    expect(json.error).toMatchObject({ code: "bad_archive" });
    expect(json.error?.message).toMatch(/tar/);
    expect(await emptyState(id)).toEqual([]);
  });

  test.each([
    ["text", "hello, this is not a tar"],
    ["random bytes", crypto.getRandomValues(new Uint8Array(5000))],
    ["nothing", new Uint8Array(0)],
  ])("is refused when it is %s instead of a tar", async (_, body) => {
    const { status, json } = await upload(body, { workspace: workspaceName() });
    expect(status).toBe(400);
    expect(json.error).toBeDefined();
  });

  test("leaves nothing behind when the object dies in the middle of the import", async () => {
    const id = crypto.randomUUID();
    const stub = sessionStub(id);
    await runInDurableObject(stub, (_, state) => void state.storage.sql.exec(SESSION_SCHEMA.tables));
    await evictDurableObject(stub);
    expect(await emptyState(id)).toEqual([]);
  });

  test("leaves nothing behind when its sender disconnects", async () => {
    const id = crypto.randomUUID();
    const order = { caller: OWNER, workspace: "w", agent: null, defaultAgent: "", cwd: null };
    const stub = sessionStub(id);
    const begun = await stub.import({ ...order, sessionId: id, recordId: id, format: "acpx" });
    if (!begun.ok) throw new Error(begun.refusal.message);
    expect(await begun.value.write(FIRST, new TextEncoder().encode(lines(id, 1, 2)))).toBeNull();
    expect(await stub.describe(OWNER)).toMatchObject({ ok: false });
    const second = await stub.import({ ...order, sessionId: id, recordId: id, format: "acpx" });
    expect(second).toMatchObject({ ok: false, refusal: { reason: "conflict" } });
    // Nobody can open a session under the id meanwhile: it would get the rows of the import.
    const opening = { sessionId: id, connection: "c", caller: OWNER, workspace: "w", agent: "", raw: null };
    const opened = await stub.open({
      ...opening,
      subscriptions: { turnEnds: false, agent: false, serves: [] },
    });
    expect(opened).toMatchObject({ ok: false });
    begun.value[Symbol.dispose]();
    await vi.waitFor(async () => expect(await emptyState(id)).toEqual([]));
  });

  test("is imported whole or not at all when its log is larger than one call", async () => {
    const workspace = workspaceName();
    const id = crypto.randomUUID();
    const many = Array.from({ length: 12_000 }, (_, i) => `${foreign(id, i + 1)}\n`);
    many[11_500] = "{}\n";
    const bad = await upload(await tarOf([[FIRST, many.join("")]]), { workspace });
    expect(bad.json.error).toMatchObject({ file: FIRST, line: 11_501 });
    expect(await emptyState(id)).toEqual([]);
    many[11_500] = `${foreign(id, 11_501)}\n`;
    expect((await upload(await tarOf([[FIRST, many.join("")]]), { workspace })).status).toBe(201);
    const files = await archive(workspace, id);
    // The export begins a new file after 10,000 events and before the events since the import.
    expect(
      segments(files)
        .map(([, text]) => text.split("\n").length - 1)
        .slice(0, 2),
    ).toEqual([10_000, 2_000]);
    expect((files.get(FIRST) as string) + files.get(SECOND)).toBe(many.join(""));
  });
});
