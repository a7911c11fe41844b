import { describe, expect, test, vi } from "vitest";
import { type Cursor, cursorAfter } from "../../../../src/protocol/cursor.ts";
import { type Frame, isFault, readFrame } from "../../../../src/protocol/frame.ts";
import type { ClientPort, DeliveryResult, Page, ReaderPosition } from "../../../../src/protocol/rpc.ts";
import type { FrameEvent, LogEvent, Route } from "../../../../src/session/core/events/event.ts";
import type { Attachment } from "../../../../src/session/core/read/replay.ts";
import { HistoryGone } from "../../../../src/session/log/history-gone.ts";
import { ClientCursor } from "../../../../src/session/readers/client-cursor.ts";
import type { LogReader } from "../../../../src/session/readers/delivery.ts";
import { PageRoom } from "../../../../src/session/readers/page-room.ts";
import type { Presence } from "../../../../src/session/readers/presence.ts";

const SESSION = "s";
const CONNECTION = "c";
const PRESENCE: Presence = { subject: "someone", role: "controller", answers: true, since: 0 };
const FROM_START: Attachment = { seq: 0, start: 0, merge: false, offers: [] };

describe("a cursor", () => {
  test("delivers the log in pages, and asks only once where the client is", async () => {
    const { cursor, log, port } = setUp([1, 2, 3, 4, 5]);
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["1", "2", "3", "4", "5"]);
    expect(port.pages.map(({ end }) => end)).toEqual([
      { attachment: 0, seq: 2 },
      { attachment: 0, seq: 4 },
      { attachment: 0, seq: 5 },
    ]);
    log.add(6);
    await pump(cursor, port, log);
    expect(port.texts().at(-1)).toBe("6");
    expect(port.asked).toBe(1);
    expect(cursor.position).toBe(6);
  });

  test("continues where the connection says that the client is", async () => {
    const { cursor, log, port } = setUp([1, 2, 3]);
    port.cursor = cursorAfter({ attachment: 0, seq: 2 });
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["3"]);
  });

  test("rests when the client has enough, until the client is ready", async () => {
    const { cursor, log, port } = setUp([1, 2, 3]);
    port.results = ["enough"];
    await pump(cursor, port, log);
    log.add(4);
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["1", "2"]);
    cursor.wake();
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["1", "2", "3", "4"]);
    expect(port.asked).toBe(2);
  });

  test("delivers a page again that was not taken", async () => {
    const { cursor, log, port } = setUp([1, 2]);
    port.results = ["later"];
    await pump(cursor, port, log);
    expect(cursor.position).toBe(0);
    cursor.wake();
    await pump(cursor, port, log);
    expect(port.taken()).toEqual(["1", "2"]);
  });

  test("starts over from the client's word when it is woken in the middle of a page", async () => {
    const { cursor, log, port } = setUp([1, 2, 3, 4]);
    port.onDeliver = () => {
      port.onDeliver = undefined;
      cursor.wake();
      port.cursor = cursorAfter({ attachment: 0, seq: 0 });
    };
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["1", "2", "1", "2", "3", "4"]);
  });

  test("ends when the client is gone, and asks again after a failure", async () => {
    const { cursor, log, port } = setUp([1]);
    port.isGone = true;
    expect(await cursor.pump(SESSION, port, log)).toBe(false);
    port.isGone = false;
    port.onDeliver = () => {
      port.onDeliver = undefined;
      port.cursor = null;
      throw new Error("reset");
    };
    await expect(cursor.pump(SESSION, port, log)).rejects.toThrow("reset");
    expect(cursor.position).toBeUndefined();
    await pump(cursor, port, log);
    expect(port.taken()).toEqual(["1"]);
  });

  test("tells the client of history that is gone, and delivers the rest", async () => {
    const { cursor, log, port } = setUp([1, 2, 3]);
    log.gone = { first: 1, last: 2 };
    await pump(cursor, port, log);
    expect(port.pages[0]?.frames[0]).toContain("history.gone");
    expect(port.texts()).toEqual(["3"]);
  });
});

describe("a cursor that marks its frames", () => {
  test("says where the client has to be and where each frame stands", async () => {
    const { cursor, log, port } = setUp([1, 2]);
    port.marks = { awaitsAnswers: false };
    await pump(cursor, port, log);
    expect(port.pages[0]?.marks).toEqual({
      kind: "in-turn",
      after: cursorAfter({ attachment: 0, seq: 0 }),
      from: cursorAfter({ attachment: 0, seq: 0 }),
      frames: [
        { seq: 1, part: null, isAnswer: false },
        { seq: 2, part: null, isAnswer: false },
      ],
    });
  });

  test("skips the first frames of an event that the client has", async () => {
    // The answer that lets the client in comes with the agent's open request.
    const attachment = { seq: 2, start: 2, merge: false, offers: [1] };
    const { cursor, log, port } = setUp([], attachment);
    log.events.push(permissionEvent(1), requestEvent(2), answerEvent(3, 2));
    port.marks = { awaitsAnswers: false };
    await pump(cursor, port, log);
    const marks = port.pages[0]?.marks?.frames;
    expect(marks).toEqual([
      { seq: 3, part: 0, isAnswer: true },
      { seq: 3, part: null, isAnswer: false },
    ]);
    port.pages.length = 0;
    port.cursor = { attachment: 2, seq: 2, part: 1 };
    cursor.wake();
    await pump(cursor, port, log);
    expect(port.pages[0]?.marks?.frames).toEqual([{ seq: 3, part: null, isAnswer: false }]);
  });

  test("finds the answers that a resting client waits for, and moves no cursor by them", async () => {
    const { cursor, log, port } = setUp([1]);
    log.events.push(requestEvent(2), answerEvent(3, 2));
    port.rests = true;
    port.marks = { awaitsAnswers: true };
    port.results = ["enough"];
    await pump(cursor, port, log);
    expect(port.pages).toHaveLength(1);
    expect(port.pages[0]?.marks).toEqual({
      kind: "answers",
      frames: [{ seq: 3, part: null, isAnswer: true }],
    });
    expect(cursor.position).toBe(0);
  });
});

/** The cursor of the client's next attachment. */
function succeed(cursor: ClientCursor, attachment: Attachment): ClientCursor {
  const next = new ClientCursor(cursor.connection, attachment, PRESENCE, cursor.first);
  next.supersede(cursor);
  return next;
}

describe("a client that attaches again", () => {
  test("first gets the rest of its earlier attachment", async () => {
    const { cursor, log, port } = setUp([1, 2]);
    await pump(cursor, port, log);
    log.add(3);
    log.events.push(requestEvent(4));
    const next = succeed(cursor, { seq: 4, start: 0, merge: false, offers: [] });
    port.cursor = cursorAfter({ attachment: 0, seq: 2 });
    await pump(next, port, log);
    expect(port.pages.map(({ end }) => end.attachment)).toEqual([0, 0, 4, 4]);
    expect(port.texts()).toEqual(["1", "2", "3", "1", "2", "3"]);
  });

  test("waits for the page that is under way", async () => {
    const { cursor, log, port } = setUp([1, 2, 3]);
    const release = Promise.withResolvers<void>();
    port.onDeliver = () => {
      port.onDeliver = undefined;
      return release.promise;
    };
    const first = pump(cursor, port, log);
    await vi.waitFor(() => expect(port.pages).toHaveLength(1));
    const next = succeed(cursor, { seq: 3, start: 3, merge: false, offers: [] });
    port.cursor = cursorAfter({ attachment: 0, seq: 2 });
    const second = pump(next, port, log);
    await new Promise((resolve) => setTimeout(resolve));
    expect(port.pages).toHaveLength(1);
    release.resolve();
    await Promise.all([first, second]);
    expect(port.texts()).toEqual(["1", "2", "3"]);
    expect(port.asked).toBe(2);
  });
});

describe("a prompt that waited", () => {
  /** The prompt waits while the first answer goes on, and its turn begins before the second one. */
  function queued(attachment = FROM_START, from = "other") {
    const { cursor, log, port } = setUp([], attachment);
    log.events.push(updateEvent(1), heldPrompt(2, "waited", from), updateEvent(3), dequeued(4, 2));
    log.events.push(updateEvent(5));
    return { cursor, log, port };
  }

  test("is shown where its turn begins", async () => {
    const { cursor, log, port } = queued();
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["1", "3", "waited", "5"]);
  });

  test("is not shown to its sender, unless the sender attached again meanwhile", async () => {
    const live = queued(FROM_START, CONNECTION);
    await pump(live.cursor, live.port, live.log);
    expect(live.port.texts()).toEqual(["1", "3", "5"]);
    const again = queued({ seq: 3, start: 0, merge: true, offers: [] }, CONNECTION);
    await pump(again.cursor, again.port, again.log);
    expect(again.port.texts()).toEqual(["1", "3", "waited", "5"]);
  });

  test("is read from the archive, if it is there", async () => {
    const { cursor, log, port } = queued();
    log.archivedUpTo = 2;
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["1", "3", "waited", "5"]);
    expect(cursor.position).toBe(5);
  });

  test("begins another page when it is too large for the page", async () => {
    const { cursor, log, port } = queued();
    log.events.splice(1, 1, heldPrompt(2, "x".repeat(1000), "other"));
    await pump(cursor, port, log);
    expect(port.pages.map(({ end }) => end.seq)).toEqual([2, 3, 5]);
  });

  test("is never shown when it was dropped", async () => {
    const { cursor, log, port } = setUp([]);
    log.events.push(heldPrompt(1, "waited", "other"), dequeued(2, 1, "cancelled"), updateEvent(3));
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["3"]);
  });

  test("is redacted for a reader of a redacted link", async () => {
    const { log, port } = queued();
    const file = { type: "resource", resource: { uri: "file:///secret", text: "hidden" } };
    log.events.splice(1, 1, heldPrompt(2, "waited", "other", file));
    const cursor = new ClientCursor(CONNECTION, FROM_START, { ...PRESENCE, redacted: true });
    await pump(cursor, port, log);
    expect(port.texts()).toEqual(["1", "3", "waited", "", "5"]);
    expect(JSON.stringify(port.pages)).not.toContain("hidden");
  });
});

describe("pages that are under way to several clients", () => {
  /** Three clients whose pages arrive when the test says so. */
  function threeClients(maxChars: number, patience: () => Promise<unknown>) {
    const { log } = setUp([1, 2, 3, 4]);
    log.room = new PageRoom(maxChars, patience);
    const arrivals: (() => void)[] = [];
    const ports = [0, 1, 2].map(() => {
      const port = new FakePort();
      port.onDeliver = () => new Promise<void>((resolve) => arrivals.push(resolve));
      return port;
    });
    const reading = ports.map((port, i) => pump(new ClientCursor(`c${i}`, FROM_START, PRESENCE), port, log));
    return { ports, arrivals, all: Promise.all(reading) };
  }
  const settled = () => new Promise((resolve) => setTimeout(resolve));
  const never = () => new Promise(() => {});

  test("go one after the other when they are large, and every client gets all of them in order", async () => {
    const { ports, arrivals, all } = threeClients(10, never);
    for (let delivered = 0; delivered < 6; delivered += 1) {
      await settled();
      expect(arrivals).toHaveLength(1);
      arrivals.pop()?.();
    }
    await all;
    for (const port of ports) expect(port.texts()).toEqual(["1", "2", "3", "4"]);
  });

  test("go to all clients at once when they are small", async () => {
    const { arrivals } = threeClients(1_000_000, never);
    await settled();
    expect(arrivals).toHaveLength(3);
  });

  test("wait for a client that has not read its page, until it has, or for a while", async () => {
    const patience = Promise.withResolvers<void>();
    const { log } = setUp([1, 2, 3]);
    log.room = new PageRoom(10, () => patience.promise);
    const readers = ["a", "b", "c"].map((name) => {
      const port = new FakePort();
      port.results = ["enough"];
      return { port, cursor: new ClientCursor(name, FROM_START, PRESENCE) };
    });
    const delivered = () => readers.map(({ port }) => port.pages.length);
    for (const { cursor, port } of readers) void pump(cursor, port, log);
    await settled();
    expect(delivered()).toEqual([1, 0, 0]);
    readers[0]?.cursor.wake();
    await settled();
    expect(delivered()).toEqual([1, 1, 0]);
    patience.resolve();
    await settled();
    expect(delivered()).toEqual([1, 1, 1]);
  });

  test("wait for a client that does not respond only for a while", async () => {
    const patience = Promise.withResolvers<void>();
    const { ports, arrivals } = threeClients(10, () => patience.promise);
    await settled();
    expect(arrivals).toHaveLength(1);
    patience.resolve();
    for (let page = 0; page < 2; page += 1) {
      await settled();
      expect(arrivals.length).toBeGreaterThan(1);
      arrivals.splice(1).forEach((arrive) => {
        arrive();
      });
    }
    await settled();
    expect(ports.slice(1).map((port) => port.texts())).toEqual([
      ["1", "2", "3", "4"],
      ["1", "2", "3", "4"],
    ]);
  });
});

function setUp(seqs: number[], attachment = FROM_START) {
  const log = new FakeLog();
  for (const seq of seqs) log.add(seq);
  return { cursor: new ClientCursor(CONNECTION, attachment, PRESENCE), log, port: new FakePort() };
}

async function pump(cursor: ClientCursor, port: FakePort, log: FakeLog): Promise<void> {
  expect(await cursor.pump(SESSION, port, log)).toBe(true);
}

/** A log whose pages have two events. */
class FakeLog implements LogReader {
  readonly events: LogEvent[] = [];
  room = new PageRoom(1_000_000, () => new Promise(() => {}));
  readonly pageChars = 10;
  readonly replayChunkChars = 1000;
  gone: { first: number; last: number } | undefined;
  /** Events up to this one are not at hand. */
  archivedUpTo = 0;

  add(seq: number): void {
    this.events.push(updateEvent(seq));
  }

  after(after: number): LogEvent[] | Promise<LogEvent[]> {
    if (this.gone && after < this.gone.last) return Promise.reject(new HistoryGone(this.gone));
    return this.events.filter(({ seq }) => seq > after).slice(0, 2);
  }

  eventAt(at: number): LogEvent | undefined {
    return at <= this.archivedUpTo ? undefined : this.#find(at);
  }

  async archivedAt(at: number): Promise<LogEvent | undefined> {
    return this.#find(at);
  }

  #find(at: number): LogEvent | undefined {
    return this.events.find(({ seq }) => seq === at);
  }
}

/** A connection that takes every page, unless a test says otherwise. */
class FakePort implements ClientPort {
  readonly pages: Page[] = [];
  cursor: Cursor | null = null;
  rests = false;
  marks: ReaderPosition["marks"];
  isGone = false;
  asked = 0;
  /** Results of the next deliveries. */
  results: DeliveryResult[] = [];
  onDeliver: (() => Promise<void> | void) | undefined;
  readonly #refused = new Set<Page>();

  async startReading(): Promise<ReaderPosition | null> {
    this.asked += 1;
    if (this.isGone) return null;
    const { cursor, rests, marks } = this;
    return { cursor, rests, ...(marks && { marks }) };
  }

  async deliver(_: string, page: Page): Promise<DeliveryResult> {
    this.pages.push(page);
    const result = this.results.shift() ?? "more";
    if (result === "later") this.#refused.add(page);
    else if (page.marks?.kind !== "answers") this.cursor = cursorAfter(page.end);
    await this.onDeliver?.();
    return result;
  }

  /** The agent's texts in all pages. */
  texts(pages: readonly Page[] = this.pages): string[] {
    return pages.flatMap(({ frames }) =>
      frames.flatMap((frame) => /"text":"([^"]*)"/.exec(frame)?.[1] ?? []),
    );
  }

  /** The agent's texts in the pages that were taken. */
  taken(): string[] {
    const failed = this.pages.filter((page) => this.#refused.has(page));
    return this.texts(this.pages.filter((page) => !failed.includes(page)).slice(-1));
  }
}

function updateEvent(seq: number): LogEvent {
  const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: String(seq) } };
  return frameEvent(seq, "in", { method: "session/update", params: { sessionId: "agent", update } }, {});
}

function permissionEvent(seq: number): LogEvent {
  const params = { sessionId: "agent", toolCall: { toolCallId: "t" }, options: [] };
  return frameEvent(seq, "in", { id: 9, method: "session/request_permission", params }, {});
}

function heldPrompt(seq: number, text: string, connection: string, ...more: object[]): LogEvent {
  const params = { sessionId: SESSION, prompt: [{ type: "text", text }, ...more] };
  return frameEvent(seq, "out", { id: "p", method: "session/prompt", params }, { connection, stop: "held" });
}

function dequeued(seq: number, prompt: number, dropped?: string): LogEvent {
  return {
    ...{ seq, at: 0, context: { acpSessionId: null, agentSessionId: null, turnId: null }, source: "gateway" },
    kind: "queue.dequeued",
    payload: { seq: prompt, turnId: "t", ...(dropped !== undefined && { dropped }) },
  };
}

/** A client's request, and the agent's answer to it. */
function requestEvent(seq: number): LogEvent {
  const message = { id: "r", method: "session/set_mode", params: { sessionId: SESSION } };
  return frameEvent(seq, "out", message, { connection: CONNECTION });
}

function answerEvent(seq: number, re: number): LogEvent {
  return frameEvent(seq, "in", { id: 1, result: {} }, { to: CONNECTION, id: '"r"', re });
}

function frameEvent(seq: number, direction: "in" | "out", message: object, route: Route): FrameEvent {
  const frame = readFrame(JSON.stringify({ jsonrpc: "2.0", ...message }));
  if (isFault(frame)) throw new Error(frame.fault);
  return {
    seq,
    at: 0,
    context: { acpSessionId: null, agentSessionId: null, turnId: null },
    source: direction === "in" ? "agent" : "client",
    kind: "acp.frame",
    direction,
    frame: frame as Frame,
    route,
  };
}
