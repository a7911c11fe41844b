import { describe, expect, test } from "vitest";
import type { Exchange } from "../../../src/connection/client.ts";
import {
  Intake,
  type IntakeParts,
  type IntakeResult,
  inspect,
  refuseUninitialized,
} from "../../../src/connection/intake.ts";
import type { Caller } from "../../../src/protocol/caller.ts";
import type { ClientState } from "../../../src/protocol/client-state.ts";
import { type Frame, readFrame } from "../../../src/protocol/frame.ts";
import { frameOf } from "./frames.ts";

const ID_CHARS = 20;
const INITIALIZED = { initialized: true };
const UNINITIALIZED = { initialized: false };
const INITIALIZE = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } };
const PROMPT = { jsonrpc: "2.0", id: 2, method: "session/prompt", params: { sessionId: "s" } };
const EXCEEDED = { code: -32000, message: "No more prompts", data: { retryAfterMs: 5 } };

describe("a message is", () => {
  test("routed once the client has initialized", () => {
    expect(inspect(frameOf(PROMPT), INITIALIZED, ID_CHARS).kind).toBe("route");
    expect(inspect(frameOf(PROMPT), UNINITIALIZED, ID_CHARS).kind).toBe("uninitialized");
  });

  test("an initialization, the first time and again, unless its id is null", () => {
    expect(inspect(frameOf(INITIALIZE), UNINITIALIZED, ID_CHARS).kind).toBe("initialize");
    expect(inspect(frameOf(INITIALIZE), INITIALIZED, ID_CHARS).kind).toBe("initialize");
    expect(inspect(frameOf({ ...INITIALIZE, id: null }), UNINITIALIZED, ID_CHARS).kind).toBe("uninitialized");
    expect(inspect(frameOf({ jsonrpc: "2.0", method: "initialize" }), UNINITIALIZED, ID_CHARS).kind).toBe(
      "uninitialized",
    );
  });

  test("a fault under the id of the request that two parsers read differently, unless that id is too long", () => {
    const read = (id: string) => readFrame(`{"id":"${id}","method":"a","Method":"b"}`);
    const fault = { kind: "fault", fault: "ambiguous" };
    expect(inspect(read("x"), INITIALIZED, ID_CHARS)).toEqual({ ...fault, idText: '"x"' });
    const long = "x".repeat(ID_CHARS + 1);
    expect(inspect(read(long), INITIALIZED, ID_CHARS)).toEqual({ ...fault, idText: "null" });
    const answer = readFrame('{"id":1,"result":{},"result":{}}');
    expect(inspect(answer, INITIALIZED, ID_CHARS)).toEqual({ ...fault, idText: "null" });
  });

  test("a fault, or a JSON object that is no JSON-RPC message", () => {
    expect(inspect({ fault: "batch" }, INITIALIZED, ID_CHARS)).toEqual({
      kind: "fault",
      fault: "batch",
      idText: "null",
    });
    expect(inspect(frameOf({ type: "ping" }), INITIALIZED, ID_CHARS).kind).toBe("invalid");
  });

  test("refused for an id that is too long, which is checked before initialization", () => {
    const verdict = (id: string) => inspect(frameOf({ ...INITIALIZE, id }), UNINITIALIZED, ID_CHARS).kind;
    expect(verdict("x".repeat(ID_CHARS))).toBe("initialize");
    expect(verdict("x".repeat(ID_CHARS + 1))).toBe("id-too-long");
    const long = { ...PROMPT, params: { sessionId: "s".repeat(ID_CHARS + 1) } };
    expect(inspect(frameOf(long), INITIALIZED, ID_CHARS).kind).toBe("id-too-long");
  });

  test.each([undefined, "1.0", 2])(
    "refused for the version %s of JSON-RPC, unless it is an answer",
    (jsonrpc) => {
      const request = inspect(frameOf({ ...PROMPT, jsonrpc }), INITIALIZED, ID_CHARS);
      expect(request).toMatchObject({ kind: "refused", error: { code: -32600 } });
      expect(inspect(frameOf({ jsonrpc, id: "s:1", result: {} }), INITIALIZED, ID_CHARS).kind).toBe("route");
    },
  );

  test("refused for a method that is too long, which is not repeated", () => {
    const method = "m".repeat(ID_CHARS + 1);
    const verdict = inspect(frameOf({ id: 1, method }), INITIALIZED, ID_CHARS);
    expect(verdict).toMatchObject({ kind: "refused", error: { code: -32600 } });
    expect(JSON.stringify(verdict)).not.toContain(`exceeds ${method}`);
  });
});

describe("the intake", () => {
  test("counts every message, also one that is no frame", async () => {
    const { intake, counted } = setUp();
    const broken = await receive(intake, "{");
    expect(broken.result).toEqual({ kind: "taken" });
    expect(broken.answers).toEqual([
      { jsonrpc: "2.0", id: null, error: { code: -32700, message: "Parse error" } },
    ]);
    await receive(intake, JSON.stringify(PROMPT));
    expect(counted).toEqual([1, JSON.stringify(PROMPT).length]);
  });

  test("counts a message that is too long, and does not read it: its sender gets an error", async () => {
    const { intake, counted, routed } = setUp();
    const text = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "session/prompt", more: "x".repeat(500) });
    const { result, answers } = await receive(intake, text);
    expect(result).toEqual({ kind: "too-long" });
    expect(answers).toMatchObject([
      { id: 2, error: { code: -32600, message: expect.stringContaining("200") } },
    ]);
    expect([counted, routed]).toEqual([[text.length], []]);
    expect((await receive(intake, "x".repeat(300))).answers).toMatchObject([{ id: null }]);
    expect((await receive(setUp({ exceeds: true }).intake, text)).result.kind).toBe("quota-exceeded");
  });

  test("passes an error on in place of an answer that is too long", async () => {
    const { intake, texts } = setUp();
    const { result } = await receive(
      intake,
      JSON.stringify({ jsonrpc: "2.0", id: "s:5", result: { content: "x".repeat(500) } }),
    );
    expect(result).toEqual({ kind: "taken" });
    const error = { code: -32603, message: "The answer exceeds 200 characters" };
    expect(texts.map((text) => JSON.parse(text))).toEqual([{ jsonrpc: "2.0", id: "s:5", error }]);
  });

  test("[I12] counts a reader's message that is too long for readers, and does not read it", async () => {
    const { intake, counted, routed } = setUp({ scopes: ["session:read"] });
    const text = JSON.stringify({ ...PROMPT, more: "x".repeat(100) });
    expect((await receive(intake, text)).result).toEqual({ kind: "too-long" });
    expect([counted, routed]).toEqual([[text.length], []]);
    expect((await receive(setUp().intake, text)).result).toEqual({ kind: "taken" });
  });

  test("refuses a request beyond the quota, and reports any other message to the transport", async () => {
    const { intake, routed } = setUp({ exceeds: true });
    const request = await receive(intake, JSON.stringify(PROMPT));
    expect(request.result).toEqual({ kind: "taken" });
    expect(request.answers).toEqual([{ jsonrpc: "2.0", id: 2, error: EXCEEDED }]);
    const notification = await receive(intake, '{"jsonrpc":"2.0","method":"session/cancel"}');
    expect(notification.result).toEqual({
      kind: "quota-exceeded",
      message: EXCEEDED.message,
      retryAfterMs: EXCEEDED.data.retryAfterMs,
    });
    expect(notification.answers).toEqual([]);
    expect(routed).toEqual([]);
  });

  test("passes initialize and other frames on", async () => {
    const { intake, routed } = setUp();
    await receive(intake, JSON.stringify(INITIALIZE));
    await receive(intake, JSON.stringify(PROMPT));
    expect(routed).toEqual(["initialize", "session/prompt"]);
  });

  test("answers a request whose handling fails without the reason, and goes on", async () => {
    const fail = async () => {
      throw new Error("inner reason");
    };
    const { intake } = setUp({ parts: { router: { initialize: fail, route: fail }, takeControl: fail } });
    for (const message of [PROMPT, INITIALIZE]) {
      const { result, answers } = await receive(intake, JSON.stringify(message));
      expect(result).toEqual({ kind: "taken" });
      const error = { code: -32603, message: "Internal error" };
      expect(answers).toEqual([{ jsonrpc: "2.0", id: message.id, error }]);
    }
    expect((await receive(intake, '{"type":"select_agent"}')).answers).toEqual([]);
  });

  test("refuses ids of other types than JSON-RPC has", async () => {
    const { intake, routed } = setUp();
    for (const id of [true, [1], { a: 1 }]) {
      const { answers } = await receive(intake, JSON.stringify({ ...PROMPT, id }));
      expect(answers).toMatchObject([{ id: null, error: { code: -32600 } }]);
    }
    expect(routed).toEqual([]);
  });

  test("leaves a frame before initialize to the transport", async () => {
    const { intake, routed } = setUp({ initialized: false });
    const { result, answers } = await receive(intake, JSON.stringify(PROMPT));
    expect(result.kind).toBe("uninitialized");
    expect([answers, routed]).toEqual([[], []]);
  });

  test("offers control objects and the transport's own frames to the transport", async () => {
    const own: unknown[] = [];
    const { intake, routed } = setUp({
      parts: {
        takeControl: async ({ type }) => type === "ping",
        takeOwn: (frame) =>
          frame.kind === "response" ? Promise.resolve(void own.push(frame.idText)) : undefined,
      },
    });
    expect((await receive(intake, '{"type":"ping"}')).answers).toEqual([]);
    expect((await receive(intake, '{"type":"other"}')).answers).toHaveLength(1);
    await receive(intake, '{"jsonrpc":"2.0","id":"pong","result":{}}');
    await receive(intake, JSON.stringify(PROMPT));
    expect(own).toEqual(['"pong"']);
    expect(routed).toEqual(["session/prompt"]);
  });
});

test("before initialize, a request is answered and anything else is ignored", () => {
  const answers: string[] = [];
  const exchange: Exchange = {
    answer: (text) => answers.push(text),
    tell: () => {},
    waitFor: () => {},
    undelivered: () => {},
  };
  refuseUninitialized(frameOf(PROMPT), exchange);
  refuseUninitialized(frameOf({ method: "session/cancel" }), exchange);
  expect(answers).toHaveLength(1);
  expect(answers[0]).toContain("The connection is not initialized");
});

function setUp({
  initialized = true,
  exceeds = false,
  scopes = ["session:read", "session:prompt"],
  parts = {},
}: {
  initialized?: boolean;
  exceeds?: boolean;
  scopes?: Caller["scopes"];
  parts?: Partial<IntakeParts>;
} = {}) {
  const caller = { scopes } as Caller;
  const counted: number[] = [];
  const routed: (string | undefined)[] = [];
  const texts: string[] = [];
  const take = async ({ method, raw }: Frame) => {
    routed.push(method);
    texts.push(raw);
  };
  const intake = new Intake({
    client: { state: { initialized, caller } as ClientState },
    admission: {
      admit: (chars) => {
        counted.push(chars);
        return exceeds ? EXCEEDED : undefined;
      },
    },
    router: { initialize: take, route: take },
    limits: { frameChars: 200, idChars: ID_CHARS, readerMessageChars: 150 },
    ...parts,
  });
  return { intake, counted, routed, texts };
}

async function receive(intake: Intake, text: string): Promise<{ result: IntakeResult; answers: unknown[] }> {
  const answers: unknown[] = [];
  const exchange: Exchange = {
    answer: (answer) => answers.push(JSON.parse(answer)),
    tell: () => {},
    waitFor: () => {},
    undelivered: () => {},
  };
  return { result: await intake.receive(text, exchange), answers };
}
