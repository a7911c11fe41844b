import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { RedactedOutput } from "../../../../src/host/redaction/redacted-output.ts";
import { Redactor } from "../../../../src/host/redaction/redactor.ts";

const SECRET = 'sk-live-"0123\\456789/abc';
const MARK = "[redacted:NAME]";

type Update = Record<string, unknown>;

describe("the output of an agent", () => {
  let items: string[] = [];
  /** For each time items were passed on: whether somebody waits for one of them. */
  let urgent: boolean[] = [];
  let output: RedactedOutput;

  beforeEach(() => {
    vi.useFakeTimers();
    items = [];
    urgent = [];
    const redactor = new Redactor();
    redactor.learn("NAME", SECRET);
    output = new RedactedOutput(redactor, { holdMinMs: 50, holdMaxMs: 1000 }, (more, isUrgent) => {
      items.push(...more);
      urgent.push(isUrgent);
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const frame = (message: Record<string, unknown>) => {
    const raw = JSON.stringify({ jsonrpc: "2.0", ...message });
    output.frame(raw, JSON.parse(raw) as Record<string, unknown>);
    return raw;
  };
  const update = (fields: Update) =>
    frame({ method: "session/update", params: { sessionId: "s", update: fields } });
  const chunk = (text: string, sessionUpdate = "agent_message_chunk", more: Update = {}) =>
    update({ sessionUpdate, content: { type: "text", text }, ...more });
  const texts = () =>
    items.map(
      (item) =>
        (JSON.parse(item) as { params: { update: { content: { text: string } } } }).params.update.content
          .text,
    );
  const pieces = (text: string, length = 4) => text.match(new RegExp(`.{1,${length}}`, "gs")) ?? [];

  test("passes on chunks that cannot begin a secret at once and verbatim", () => {
    const raw = [chunk("Hello"), chunk(" wörld \\ \n")];
    output.flush();
    expect(items).toEqual(raw);
  });

  test("lets no secret out in chunks of four characters, and keeps every chunk", () => {
    const all = pieces(`The key is ${SECRET}.`);
    for (const text of all) chunk(text);
    output.flush();
    expect(items).toHaveLength(all.length);
    expect(texts().join("")).toBe(`The key is ${MARK}.`);
  });

  test("lets no secret out in the output of a terminal, and keeps the outputs of terminals apart", () => {
    for (const text of pieces(`key ${SECRET}\n`)) {
      output.terminalOutput("a", text);
      output.terminalOutput("b", "-");
    }
    output.event(["terminal_exit", { terminalId: "a", exitCode: 0, signal: null }]);
    const said = items.map((item) => JSON.parse(item) as [string, { terminalId: string; data?: string }]);
    const of = (id: string) =>
      said.map(([, { terminalId, data = "" }]) => (terminalId === id ? data : "")).join("");
    expect(of("a")).toBe(`key ${MARK}\n`);
    expect(of("b")).toMatch(/^-+$/);
    expect(said.at(-1)?.[0]).toBe("terminal_exit");
  });

  test("recognises a secret whose chunks claim to belong to different messages", () => {
    for (const [index, text] of pieces(SECRET).entries())
      chunk(text, "agent_message_chunk", { messageId: `m${index}` });
    output.flush();
    expect(texts().join("")).toBe(MARK);
  });

  test("shows neither half of a secret that a request interrupts", () => {
    chunk(`key ${SECRET.slice(0, 18)}`);
    frame({ id: 1, method: "fs/read_text_file", params: { sessionId: "s", path: "/x" } });
    chunk(SECRET.slice(18));
    output.flush();
    const said = [items[0], items[2]].map(
      (item) => (JSON.parse(item as string) as { params: { update: { content: { text: string } } } }).params,
    );
    expect(said.map(({ update: { content } }) => content.text)).toEqual([
      "key [redacted:beginning of a secret]",
      MARK,
    ]);
  });

  test("keeps streams apart that are interleaved, and the order of all items", () => {
    const order: string[] = [];
    for (const text of pieces(SECRET)) {
      chunk(text, "agent_message_chunk", { messageId: "a" });
      chunk(text, "agent_thought_chunk", { messageId: "b" });
      update({ sessionUpdate: "usage_update", used: 1, size: 2 });
      order.push("agent_message_chunk", "agent_thought_chunk", "usage_update");
    }
    output.flush();
    const sent = items.map((item) => (JSON.parse(item) as { params: { update: Update } }).params.update);
    expect(sent.map(({ sessionUpdate }) => sessionUpdate)).toEqual(order);
    for (const kind of ["agent_message_chunk", "agent_thought_chunk"])
      expect(
        sent
          .filter(({ sessionUpdate }) => sessionUpdate === kind)
          .map(({ content }) => (content as { text: string }).text)
          .join(""),
      ).toBe(MARK);
  });

  test("redacts output of a terminal that an agent sends in pieces", () => {
    for (const data of pieces(`$ env\nKEY=${SECRET}\n`))
      update({
        sessionUpdate: "tool_call_update",
        toolCallId: "t",
        _meta: { terminal_output: { terminal_id: "1", data } },
      });
    output.flush();
    type Piece = { params: { update: { _meta: { terminal_output: { data: string } } } } };
    expect(
      items.map((item) => (JSON.parse(item) as Piece).params.update._meta.terminal_output.data).join(""),
    ).toBe(`$ env\nKEY=${MARK}\n`);
  });

  test.each([
    ["a request", () => frame({ id: 1, method: "session/request_permission", params: {} })],
    ["a response", () => frame({ id: 1, result: { stopReason: "end_turn" } })],
    ["an event of the host", () => output.event(["answer", '{"jsonrpc":"2.0","id":1,"result":null}'])],
  ])("releases what is held before %s", (_, send) => {
    const raw = chunk("ends in s");
    expect(items).toEqual([]);
    send();
    expect(items).toHaveLength(2);
    expect(items[0]).toBe(raw);
  });

  describe("a tool call that is sent again while its texts grow", () => {
    const BEGINNING = "[redacted:beginning of a secret]";
    const grown = (text: string) => ({
      toolCallId: "c",
      title: text,
      content: [{ type: "content", content: { type: "text", text } }],
      rawOutput: { stdout: text, parts: [text] },
    });
    const seen = () => (JSON.parse(items.at(-1) as string) as { params: { update: Update } }).params.update;

    test.each(["tool_call", "tool_call_update"])(
      "shows no long beginning of a secret: %s",
      (sessionUpdate) => {
        for (let length = 1; length <= SECRET.length; length += 1) {
          update({ sessionUpdate, ...grown(`KEY=${SECRET.slice(0, length)}`) });
          const shown = length === SECRET.length ? MARK : length < 12 ? SECRET.slice(0, length) : BEGINNING;
          expect(seen()).toEqual({ sessionUpdate, ...grown(`KEY=${shown}`) });
        }
        update({ sessionUpdate, ...grown(`${SECRET}, ${SECRET.slice(0, -1)}`) });
        expect(seen()).toEqual({ sessionUpdate, ...grown(`${MARK}, ${BEGINNING}`) });
      },
    );

    test("shows none in a permission request", () => {
      frame({
        id: 1,
        method: "session/request_permission",
        params: { toolCall: grown(SECRET.slice(0, -1)) },
      });
      expect(JSON.parse(items.at(-1) as string)).toMatchObject({ params: { toolCall: grown(BEGINNING) } });
    });

    test("shows none beside a piece of a terminal's output, which stays a piece", () => {
      const piece = (data: string) => ({
        sessionUpdate: "tool_call_update",
        ...grown(SECRET.slice(0, -1)),
        _meta: { terminal_output: { terminal_id: "t", data } },
      });
      update(piece(SECRET.slice(0, -1)));
      update(piece("?"));
      output.flush();
      expect(items.map((item) => (JSON.parse(item) as { params: { update: Update } }).params.update)).toEqual(
        [SECRET.slice(0, -1), "?"].map((data) => ({ ...piece(data), ...grown(BEGINNING) })),
      );
    });

    test("stays verbatim without a secret, and so does a text that ends in a short beginning", () => {
      const raw = update({ sessionUpdate: "tool_call_update", ...grown(`a \\ "b" ${SECRET.slice(0, 11)}`) });
      expect(items).toEqual([raw]);
    });
  });

  test("releases what is held after a short time, and longer for more of a secret", async () => {
    const raw = chunk("ends in s");
    await vi.advanceTimersByTimeAsync(49);
    expect(items).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(items).toEqual([raw]);
    chunk("k-live");
    await vi.advanceTimersByTimeAsync(999);
    expect(items).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    chunk(`${SECRET.slice(7)} and more`);
    output.flush();
    expect(texts()).toEqual(["ends in s", "k-live", `${MARK} and more`]);
  });

  test("says that somebody waits for requests, answers and events, and for nothing else", () => {
    chunk("some text");
    update({ sessionUpdate: "plan", entries: [] });
    output.noise("a warning");
    expect(urgent).toEqual([false, false, false]);
    frame({ id: 1, method: "fs/read_text_file", params: {} });
    frame({ id: 2, result: { stopReason: "end_turn" } });
    output.event(["exit", { code: 0, signal: null, stderr: "" }]);
    expect(urgent).toEqual([false, false, false, true, true, true]);
  });

  test("says it for chunks that a request releases", () => {
    chunk(SECRET.slice(0, 4));
    expect(urgent).toEqual([]);
    frame({ id: 1, method: "fs/read_text_file", params: {} });
    expect(items).toHaveLength(2);
    expect(urgent).toEqual([true]);
  });

  test("is not held up by another stream that goes on", async () => {
    chunk("ends in s");
    for (let i = 0; i < 10; i++) {
      await vi.advanceTimersByTimeAsync(10);
      chunk("thinking s", "agent_thought_chunk");
    }
    expect(texts()[0]).toBe("ends in s");
  });

  test("redacts every other string of a frame, and keeps the rest verbatim", () => {
    const raw = `{ "jsonrpc":"2.0", "method":"session/update","params":{"n":1.0,"${JSON.stringify(SECRET).slice(1, -1)}":"\\u0073k-live-\\"0123\\\\456789\\/abc","x":"\\u0041"}}`;
    output.frame(raw, JSON.parse(raw) as Record<string, unknown>);
    expect(items).toEqual([
      `{ "jsonrpc":"2.0", "method":"session/update","params":{"n":1.0,"${MARK}":"${MARK}","x":"\\u0041"}}`,
    ]);
  });

  test("redacts noise before it cuts noise to 4 KiB, and across lines", () => {
    output.noise(`${"x".repeat(4090)}${SECRET}`);
    output.noise(`log: ${SECRET} \ufffd`);
    for (const line of Buffer.from(`k=${SECRET.repeat(4)}`)
      .toString("base64")
      .match(/.{1,76}/g) ?? [])
      output.noise(line);
    output.noise("y".repeat(10_000));
    output.flush();
    const lines = items.map((item) => (JSON.parse(item) as [string, string])[1]);
    expect(lines[0]).toBe(`${"x".repeat(4090)}${MARK}`.slice(0, 4096));
    expect(lines[1]).toBe(`log: ${MARK} \ufffd`);
    expect(Buffer.from(lines.slice(2, -1).join(""), "base64").toString()).not.toContain("sk-live");
    expect(lines.at(-1)).toBe("y".repeat(4096));
  });

  test("redacts a response within an event and keeps it valid JSON", () => {
    const response = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { content: `KEY=${SECRET}\n` } });
    output.event(["answer", response]);
    const [, text] = JSON.parse(items[0] as string) as [string, string];
    expect(JSON.parse(text)).toEqual({ jsonrpc: "2.0", id: 1, result: { content: `KEY=${MARK}\n` } });
  });
});
