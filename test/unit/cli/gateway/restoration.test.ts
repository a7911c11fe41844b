import { describe, expect, test } from "vitest";
import {
  isRestorationRequest,
  readRestorationResponse,
  restorationRequests,
} from "../../../../src/cli/gateway/restoration.ts";
import { MetaKey } from "../../../../src/protocol/extensions.ts";

const INITIALIZE = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"big":12345678901234567890}}';
const CURSORS = new Map([["s1", { connection: "c1", cursor: "3.17" }]]);

describe("a restoration", () => {
  const requests = restorationRequests(INITIALIZE, CURSORS);

  test("repeats the editor's initialize verbatim, under an id of its own", () => {
    const [first] = requests;
    expect(first?.line).toBe(INITIALIZE.replace('"id":0', `"id":${JSON.stringify(first?.id)}`));
  });

  test("resumes each session after its cursor, on behalf of the old connection", () => {
    expect(JSON.parse(requests[1]?.line ?? "")).toMatchObject({
      method: "session/resume",
      params: { sessionId: "s1", _meta: { [MetaKey.after]: 17, [MetaKey.as]: "c1" } },
    });
  });

  test("recognises its own requests, and only these", () => {
    expect(requests.every(({ line }) => isRestorationRequest(line))).toBe(true);
    expect(isRestorationRequest(INITIALIZE)).toBe(false);
    const quoting = { jsonrpc: "2.0", id: 1, method: "session/prompt", params: { text: requests[1]?.id } };
    expect(isRestorationRequest(JSON.stringify(quoting))).toBe(false);
  });

  test("reads the responses to its requests", () => {
    const [initialize, resume] = requests.map(({ id }) => id);
    const answer = (id: unknown, more: object) => JSON.stringify({ jsonrpc: "2.0", id, ...more });
    expect(readRestorationResponse(answer(initialize, { result: {} }))).toEqual({
      id: initialize,
      sessionId: undefined,
      error: null,
    });
    expect(readRestorationResponse(answer(resume, { error: { code: 1, message: "gone" } }))).toEqual({
      id: resume,
      sessionId: "s1",
      error: "gone",
    });
    expect(readRestorationResponse(answer(1, { result: {} }))).toBeUndefined();
  });
});
