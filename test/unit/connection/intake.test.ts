import { describe, expect, test } from "vitest";
import type { Exchange } from "../../../src/connection/client.ts";
import {
  Intake,
  type IntakeParts,
  type IntakeResult,
  inspect,
  refuseUninitialized,
} from "../../../src/connection/intake.ts";
import type { ClientState } from "../../../src/protocol/client-state.ts";
import type { Frame } from "../../../src/protocol/frame.ts";
import { frameOf } from "./frames.ts";

const ID_CHARS = 10;
const INITIALIZED = { initialized: true };
const UNINITIALIZED = { initialized: false };
const INITIALIZE = { id: 1, method: "initialize", params: { protocolVersion: 1 } };
const PROMPT = { id: 2, method: "session/prompt", params: { sessionId: "s" } };
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
    expect(inspect(frameOf({ method: "initialize" }), UNINITIALIZED, ID_CHARS).kind).toBe("uninitialized");
  });

  test("a fault, or a JSON object that is no JSON-RPC message", () => {
    expect(inspect({ fault: "batch" }, INITIALIZED, ID_CHARS)).toEqual({ kind: "fault", fault: "batch" });
    expect(inspect(frameOf({ type: "ping" }), INITIALIZED, ID_CHARS).kind).toBe("invalid");
  });

  test("refused for an id that is too long, which is checked before initialization", () => {
    const verdict = (id: string) => inspect(frameOf({ ...INITIALIZE, id }), UNINITIALIZED, ID_CHARS).kind;
    expect(verdict("x".repeat(ID_CHARS))).toBe("initialize");
    expect(verdict("x".repeat(ID_CHARS + 1))).toBe("id-too-long");
    const long = { ...PROMPT, params: { sessionId: "s".repeat(ID_CHARS + 1) } };
    expect(inspect(frameOf(long), INITIALIZED, ID_CHARS).kind).toBe("id-too-long");
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

  test("neither counts nor reads a message that is too long", async () => {
    const { intake, counted, routed } = setUp();
    const { result, answers } = await receive(intake, JSON.stringify({ ...PROMPT, more: "x".repeat(500) }));
    expect(result).toEqual({ kind: "too-long" });
    expect(answers).toHaveLength(1);
    expect([counted, routed]).toEqual([[], []]);
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
  const exchange: Exchange = { answer: (text) => answers.push(text), waitFor: () => {} };
  refuseUninitialized(frameOf(PROMPT), exchange);
  refuseUninitialized(frameOf({ method: "session/cancel" }), exchange);
  expect(answers).toHaveLength(1);
  expect(answers[0]).toContain("The connection is not initialized");
});

function setUp({
  initialized = true,
  exceeds = false,
  parts = {},
}: {
  initialized?: boolean;
  exceeds?: boolean;
  parts?: Partial<IntakeParts>;
} = {}) {
  const counted: number[] = [];
  const routed: (string | undefined)[] = [];
  const take = async ({ method }: Frame) => void routed.push(method);
  const intake = new Intake({
    client: { state: { initialized } as ClientState },
    admission: {
      admit: (chars) => {
        counted.push(chars);
        return exceeds ? EXCEEDED : undefined;
      },
    },
    router: { initialize: take, route: take },
    limits: { frameChars: 200, idChars: ID_CHARS },
    ...parts,
  });
  return { intake, counted, routed };
}

async function receive(intake: Intake, text: string): Promise<{ result: IntakeResult; answers: unknown[] }> {
  const answers: unknown[] = [];
  const exchange: Exchange = { answer: (answer) => answers.push(JSON.parse(answer)), waitFor: () => {} };
  return { result: await intake.receive(text, exchange), answers };
}
