import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { FULL_CHARS, SendWindow } from "../../../../src/host/link/send-window.ts";

describe("the window in which streamed items leave the host", () => {
  let sent: number[][] = [];
  let waiting: number[] = [];
  let window: SendWindow;
  const start = 1_000_000;

  beforeEach(() => {
    vi.useFakeTimers({ now: start });
    sent = [];
    waiting = [];
    window = new SendWindow(80, () => send(), {
      now: () => Date.now(),
      after: (ms, act) => {
        const timer = setTimeout(act, ms);
        return () => clearTimeout(timer);
      },
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const send = () => {
    sent.push(waiting);
    waiting = [];
    window.close();
  };
  /** Adds an item that is known by the time at which it was added. */
  const add = ({ chars = 100, isUrgent = false } = {}) => {
    waiting.push(Date.now() - start);
    window.add(chars, isUrgent);
  };
  const addAt = (ms: number, item?: { chars?: number; isUrgent?: boolean }) => {
    vi.advanceTimersByTime(start + ms - Date.now());
    add(item);
  };

  test("is open for the first item of a burst, and then once in its length", () => {
    for (let i = 0; i < 10; i += 1) addAt(i * 30);
    vi.advanceTimersByTime(1000);
    expect(sent).toEqual([[0], [30, 60], [90, 120, 150], [180, 210], [240, 270]]);
  });

  test("turns 200 updates at 30 a second into at most 90 messages, in order", () => {
    for (let i = 0; i < 200; i += 1) addAt(Math.round((i * 1000) / 30));
    vi.advanceTimersByTime(1000);
    expect(sent.length).toBeLessThanOrEqual(90);
    expect(sent.flat()).toEqual(Array.from({ length: 200 }, (_, i) => Math.round((i * 1000) / 30)));
  });

  test("is open again after a pause", () => {
    addAt(0);
    addAt(80);
    addAt(500);
    expect(sent).toEqual([[0], [80], [500]]);
  });

  test("is open for an urgent item and all items before it", () => {
    addAt(0);
    addAt(10);
    addAt(20, { isUrgent: true });
    expect(sent).toEqual([[0], [10, 20]]);
    addAt(30);
    vi.advanceTimersByTime(69);
    expect(sent).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(sent).toEqual([[0], [10, 20], [30]]);
  });

  test("is open for the first reaction to what the agent was given", () => {
    addAt(0, { isUrgent: true });
    window.expectReaction();
    addAt(5);
    addAt(10);
    expect(sent).toEqual([[0], [5]]);
  });

  test("is open when a message is full", () => {
    addAt(0);
    addAt(1, { chars: FULL_CHARS / 2 });
    expect(sent).toEqual([[0]]);
    addAt(2, { chars: FULL_CHARS / 2 });
    expect(sent).toEqual([[0], [1, 2]]);
  });

  test("holds nothing back when it is switched off", () => {
    window.ms = 0;
    for (let i = 0; i < 3; i += 1) addAt(i);
    expect(sent).toEqual([[0], [1], [2]]);
  });

  test("releases items once while they cannot be sent", () => {
    let releases = 0;
    window = new SendWindow(80, () => {
      releases += 1;
    });
    for (let i = 0; i < 3; i += 1) window.add(100, true);
    expect(releases).toBe(1);
    expect(window.isOpen).toBe(true);
  });
});
