import { describe, expect, test } from "vitest";
import { requestSocket } from "../../src/http/object-socket.ts";
import { REFUSAL } from "../../src/protocol/internal-headers.ts";
import { type Refusal, refused } from "../../src/protocol/refusal.ts";

const answering = (response: Response) => () => ({ fetch: async () => response });

describe("an object that is asked for a socket", () => {
  test.each<Refusal>([
    { reason: "not-found", message: "Unknown session", data: { sessionId: "s" } },
    { reason: "too-many", message: "Too many: “später”", retryAfterMs: 5 },
    { reason: "gone", message: "The history is gone" },
  ])("passes on its refusal: $reason", async (refusal) => {
    const response = new Response(null, { status: 400, headers: REFUSAL.write(refusal) });
    expect(await requestSocket(answering(response), {})).toEqual(refused(refusal));
  });

  test.each([404, 500])("has failed if it answers %s without a refusal", async (status) => {
    const response = new Response("no", { status });
    await expect(requestSocket(answering(response), {})).rejects.toThrow(`An object answered ${status}`);
  });
});
