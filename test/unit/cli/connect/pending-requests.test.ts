import { describe, expect, test } from "vitest";
import { PendingRequests } from "../../../../src/cli/connect/pending-requests.ts";

const request = (id: unknown, sessionId?: string) =>
  JSON.stringify({ jsonrpc: "2.0", id, method: "session/prompt", params: { sessionId } });
const response = (id: unknown) => JSON.stringify({ jsonrpc: "2.0", id, result: {} });
const idsOf = (errors: string[]) => errors.map((error) => (JSON.parse(error) as { id: unknown }).id);

describe("requests of the editor", () => {
  test("get no error after they were answered", () => {
    const pending = new PendingRequests();
    for (const id of [1, "two", 3]) pending.add(request(id));
    expect(pending.settle(response("two"))).toBe(true);
    const errors = pending.fail("gone");
    expect(idsOf(errors)).toEqual([1, 3]);
    expect(JSON.parse(errors[0] as string)).toMatchObject({ error: { message: "gone" } });
    expect(pending.fail("gone")).toEqual([]);
  });

  test("of one session can fail without those of other sessions", () => {
    const pending = new PendingRequests();
    pending.add(request(1, "a"));
    pending.add(request(2, "b"));
    expect(idsOf(pending.fail("gone", "b"))).toEqual([2]);
    expect(idsOf(pending.fail("gone"))).toEqual([1]);
  });

  test("drop a late response, once, after they got an error", () => {
    const pending = new PendingRequests();
    pending.add(request(1));
    pending.fail("gone");
    expect(pending.settle(response(1))).toBe(false);
    expect(pending.settle(response(1))).toBe(true);
    pending.add(request(1));
    expect(pending.settle(response(1))).toBe(true);
  });

  test("do not include notifications, responses or lines that are not JSON", () => {
    const pending = new PendingRequests();
    pending.add('{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"a"}}');
    pending.add(response(9));
    pending.add("nonsense");
    expect(pending.fail("gone")).toEqual([]);
  });
});
