import { describe, expect, test } from "vitest";
import { MAX_DEPTH } from "../../../../../src/protocol/json-text.ts";
import { isLineFault, readEnvelope } from "../../../../../src/session/core/events/envelope.ts";
import { isFrame, type Route } from "../../../../../src/session/core/events/event.ts";

const MESSAGE = { jsonrpc: "2.0", method: "session/update", params: {} };

function line(changes: Record<string, unknown>): string {
  return JSON.stringify({
    ...{ schema: "acpx.event.v1", seq: 1, eventId: "e", at: "2026-01-01T00:00:00.000Z", acpxRecordId: "r" },
    ...{ acpSessionId: null, agentSessionId: null, turnId: null, requestId: null, source: "agent" },
    ...{ kind: "acp.frame", payload: { direction: "in", message: MESSAGE } },
    ...changes,
  });
}

/** The route that a line with these companions of a frame is read with. */
function routeOf(companions: Record<string, unknown>): Route | undefined {
  const read = readEnvelope(line({ payload: { direction: "in", message: MESSAGE, ...companions } }));
  if (isLineFault(read) || !isFrame(read.event)) return undefined;
  return read.event.route;
}

describe("a line from elsewhere", () => {
  test.each([
    "eventId",
    "acpxRecordId",
    "kind",
    "acpSessionId",
    "agentSessionId",
    "turnId",
    "requestId",
    "source",
  ])("is no event with a long %s, which would not fit into its column", (key) => {
    expect(readEnvelope(line({ [key]: "x".repeat(1024) }))).toHaveProperty("event");
    expect(readEnvelope(line({ [key]: "x".repeat(1025) }))).toHaveProperty("fault");
  });

  test("is no event when it is nested too deeply", () => {
    const deep = (depth: number) =>
      line({}).replace('"params":{}', `"params":${"[".repeat(depth)}${"]".repeat(depth)}`);
    expect(readEnvelope(deep(MAX_DEPTH))).toHaveProperty("event.kind", "acp.frame");
    expect(readEnvelope(deep(100_000))).toHaveProperty("fault");
  });
});

describe("the route of a frame from elsewhere", () => {
  test("is taken as it is when every member that we know has its type", () => {
    const route = {
      connection: "c",
      to: "d",
      also: ["e"],
      id: "7",
      re: 3,
      stop: "held",
      early: true,
      repeats: 2,
    };
    expect(routeOf({ ...route, unknown: {} })).toEqual({ ...route, unknown: {} });
  });

  test.each([
    { also: 5 },
    { also: [5] },
    { except: {} },
    { path: 1 },
    { early: "yes" },
    { stop: "elsewhere" },
    { re: 1.5 },
    { repeats: "2" },
    { to: null },
  ])("is dropped when a member has another type: %j", (companions) => {
    expect(routeOf(companions)).toEqual({});
  });
});
