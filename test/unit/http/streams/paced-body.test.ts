import { expect, test } from "vitest";
import { pacedBody } from "../../../../src/http/streams/paced-body.ts";

/** A body whose pieces the test writes; its writer fails when the reader cancels. */
function open(pace: { stallMs: number; totalMs: number }) {
  const source = new TransformStream<Uint8Array, Uint8Array>();
  const writer = source.writable.getWriter();
  writer.closed.catch(() => {});
  const body = pacedBody(source.readable, pace, () => new Error("too slow"));
  const write = (text: string) => writer.write(new TextEncoder().encode(text));
  return { writer, write, body };
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test("a body passes unchanged", async () => {
  const { writer, write, body } = open({ stallMs: 1000, totalMs: 1000 });
  const text = new Response(body).text();
  await write("one ");
  await write("two");
  await writer.close();
  expect(await text).toBe("one two");
});

test("a body that stops coming is an error, and is read no further", async () => {
  const { writer, write, body } = open({ stallMs: 20, totalMs: 10_000 });
  const text = new Response(body).text();
  await write("one ");
  await expect(text).rejects.toThrow("too slow");
  await expect(writer.write(new Uint8Array(1))).rejects.toBeUndefined();
});

test("a steady body that takes too long in total is an error", async () => {
  const { write, body } = open({ stallMs: 10_000, totalMs: 50 });
  const text = new Response(body).text();
  const failed = expect(text).rejects.toThrow("too slow");
  // Pieces are written until the reader gives up.
  for (let ended = false; !ended; ) {
    await pause(5);
    ended = await write(".").then(
      () => false,
      () => true,
    );
  }
  await failed;
});

test("time without a reader does not count", async () => {
  const { writer, write, body } = open({ stallMs: 30, totalMs: 30 });
  const reader = body.getReader();
  void write("one");
  expect((await reader.read()).value).toHaveLength(3);
  await pause(60);
  void write("two");
  void writer.close();
  expect((await reader.read()).value).toHaveLength(3);
  expect((await reader.read()).done).toBe(true);
});

test("a reader that cancels cancels the source", async () => {
  const { writer, body } = open({ stallMs: 1000, totalMs: 1000 });
  await body.cancel("enough");
  await expect(writer.closed).rejects.toBe("enough");
});
