import { expect, test } from "vitest";
import { NumberedOutbox } from "../../../src/node/numbered-outbox.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";

test("the outbox keeps items until they are acknowledged", () => {
  const outbox = new NumberedOutbox(DEFAULT_LIMITS);
  outbox.push(["a", "b", "c"]);
  expect(outbox.batch(0)).toEqual(["a", "b", "c"]);
  outbox.ack(2);
  outbox.push(["d"]);
  expect(outbox.batch(2)).toEqual(["c", "d"]);
  expect(outbox.batch(3)).toEqual(["d"]);
  expect(outbox.batch(4)).toEqual([]);
  expect([outbox.acked, outbox.last]).toEqual([2, 4]);
});

test("the outbox ignores acknowledgements of the past and of the future", () => {
  const outbox = new NumberedOutbox(DEFAULT_LIMITS);
  outbox.push(["a", "b"]);
  outbox.ack(9);
  outbox.ack(1);
  expect([outbox.acked, outbox.last]).toEqual([2, 2]);
});

test("a batch stays within the limit, unless one item alone is larger", () => {
  const half = "x".repeat(DEFAULT_LIMITS.linkBatchChars / 2);
  const large = "x".repeat(DEFAULT_LIMITS.linkBatchChars * 2);
  const outbox = new NumberedOutbox(DEFAULT_LIMITS);
  outbox.push([half, "a", half, large, "b"]);
  expect(outbox.batch(0)).toEqual([half, "a"]);
  expect(outbox.batch(2)).toEqual([half]);
  expect(outbox.batch(3)).toEqual([large]);
  expect(outbox.batch(4)).toEqual(["b"]);
});

test("the outbox is full above its window and has room again at half of it", async () => {
  const outbox = new NumberedOutbox({ ...DEFAULT_LIMITS, hostWindowChars: 1000 });
  const events: string[] = [];
  outbox.push(["x".repeat(400), "x".repeat(400)]);
  expect(outbox.isFull).toBe(false);
  outbox.push(["x".repeat(400)]);
  expect(outbox.isFull).toBe(true);
  const room = outbox.room().then(() => events.push("room"));
  outbox.ack(1);
  events.push("one acknowledged");
  await Promise.resolve();
  outbox.ack(2);
  events.push("two acknowledged");
  await room;
  expect(events).toEqual(["one acknowledged", "two acknowledged", "room"]);
});

test("the outbox forgets everything once it is discarded", async () => {
  const outbox = new NumberedOutbox({ ...DEFAULT_LIMITS, hostWindowChars: 10 });
  outbox.push(["x".repeat(100)]);
  const room = outbox.room();
  outbox.discard();
  outbox.push(["y"]);
  await room;
  expect(outbox.batch(outbox.acked)).toEqual([]);
});
