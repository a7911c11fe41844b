import { describe, expect, test } from "vitest";
import { eventStream } from "../../../../src/http/streams/event-stream.ts";

/** The object's end of a reader's socket, played by the test. */
class FakeSocket {
  asked = 0;
  closed: string | undefined;
  #listeners: Record<string, ((event: { data: unknown }) => void)[]> = {};

  addEventListener(type: string, listener: (event: { data: unknown }) => void): void {
    this.#listeners[type] = [...(this.#listeners[type] ?? []), listener];
  }

  send(): void {
    this.asked += 1;
  }

  close(_code?: number, reason?: string): void {
    this.closed = reason;
  }

  emit(type: string, data?: unknown): void {
    for (const listener of this.#listeners[type] ?? []) listener({ data });
  }
}

function open({ keepAliveMs = 60_000, stallMs = 60_000, endsAt = Date.now() + 60_000 } = {}) {
  const socket = new FakeSocket();
  const request = new AbortController();
  const times = { keepAliveMs, stallMs, endsAt };
  const reader = eventStream(socket, { ...times, signal: request.signal }).getReader();
  const read = async () => {
    const { done, value } = await reader.read();
    return done ? undefined : new TextDecoder().decode(value);
  };
  return { socket, request, reader, read };
}

const tick = () => new Promise((resolve) => setTimeout(resolve, 5));

describe("an event stream", () => {
  test("requests no page before it is read, and one page at a time", async () => {
    const { socket, read } = open();
    await tick();
    expect(socket.asked).toBe(0);
    const first = read();
    await tick();
    expect(socket.asked).toBe(1);
    socket.emit("message", "one");
    socket.emit("message", "two");
    expect(await first).toBe("one");
    await tick();
    expect(socket.asked).toBe(1);
    expect(await read()).toBe("two");
    void read();
    await tick();
    expect(socket.asked).toBe(2);
  });

  test("sends a sign of life now and then without requesting a page", async () => {
    const { socket, read } = open({ keepAliveMs: 10 });
    expect(await read()).toBe(": keep-alive\n\n");
    expect(await read()).toBe(": keep-alive\n\n");
    expect(socket.asked).toBe(1);
    const next = read();
    socket.emit("message", "news");
    expect(await next).toBe("news");
  });

  test("ends when its token expires", async () => {
    const { socket, read } = open({ endsAt: Date.now() + 20 });
    expect(await read()).toBeUndefined();
    expect(socket.closed).toBe("token expired");
  });

  test("ends when its token expires, even for a reader that reads nothing", async () => {
    const { socket, read } = open({ endsAt: Date.now() + 20 });
    await expect.poll(() => socket.closed).toBe("token expired");
    expect(await read()).toBeUndefined();
  });

  test("closes the socket when its reader takes nothing for long, and not before", async () => {
    const { socket, read } = open({ keepAliveMs: 10, stallMs: 100 });
    for (let n = 0; n < 15; n += 1) expect(await read()).toBe(": keep-alive\n\n");
    expect(socket.closed).toBeUndefined();
    await expect.poll(() => socket.closed).toBe("reader gone");
    expect(await read()).toBeUndefined();
  });

  test.each(["close", "error"])(
    "ends with its socket (%s) after the events that had arrived",
    async (type) => {
      const { socket, read } = open();
      const first = read();
      await tick();
      socket.emit("message", "last");
      socket.emit(type);
      expect(await first).toBe("last");
      expect(await read()).toBeUndefined();
    },
  );

  test("closes the socket when its reader is gone", async () => {
    const { socket, reader } = open();
    await reader.cancel();
    expect(socket.closed).toBe("reader gone");
  });

  test("closes the socket when its request is aborted", async () => {
    const { socket, request } = open();
    request.abort();
    expect(socket.closed).toBe("reader gone");
  });
});
