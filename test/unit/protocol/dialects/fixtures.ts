import { expect } from "vitest";
import { type DialectName, translate, translateBack } from "../../../../src/protocol/dialects/index.ts";
import { type Frame, isFault, readFrame } from "../../../../src/protocol/frame.ts";
import type { Json } from "../../../fixtures/json.ts";

export const json = (text: string) => JSON.parse(text) as Json;
export const paramsOf = (text: string) => json(text).params as Json;

export function frame(raw: string): Frame {
  const read = readFrame(raw);
  if (isFault(read)) throw new Error(`not a frame: ${read.fault}`);
  return read;
}

/** The frame a session gets for a client's frame. */
export function forwarded(name: DialectName, raw: string): Json {
  const translation = translate(name, frame(raw));
  if (!("frame" in translation)) throw new Error(JSON.stringify(translation));
  return json(translation.frame.raw);
}

export function request(method: string, params: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
}

/** The frame a client of the dialect gets for an agent's update. */
export function updated(name: DialectName, update: Json, sessionId = "session-abc123"): Json {
  const raw = JSON.stringify({ jsonrpc: "2.0", method: "session/update", params: { sessionId, update } });
  const [message, ...more] = translateBack(name, raw, sessionId);
  expect(more).toEqual([]);
  return json(message as string);
}
