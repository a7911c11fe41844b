import { describe, expect, test } from "vitest";
import {
  type Candidate,
  choosePlacement,
  isOverdue,
  wouldHelp,
} from "../../../../src/workspace/placement/policy.ts";

const NOW = 1_000_000;
const GRACE = 60_000;

function host(name: string, more: Partial<Candidate> = {}): Candidate {
  return {
    name,
    state: "connected",
    lastSeenAt: NOW,
    hasLeft: false,
    agents: ["a"],
    placed: 0,
    capacity: 10,
    maxAgents: null,
    loadAverage: 0,
    ...more,
  };
}

const place = (
  home: string | null,
  hosts: Candidate[],
  { sharedFiles = false, agent = "a" }: { sharedFiles?: boolean; agent?: string } = {},
) => choosePlacement({ agent, home }, hosts, { sharedFiles, hostGraceMs: GRACE }, NOW);

const gone = (name: string, forMs: number, more: Partial<Candidate> = {}) =>
  host(name, { state: "gone", lastSeenAt: NOW - forMs, ...more });

describe("a session without a home", () => {
  test("goes to the host with the least load for its capacity", () => {
    expect(place(null, [host("x", { placed: 3 }), host("y", { placed: 4, capacity: 20 })])).toEqual({
      host: "y",
    });
  });

  test("goes to a host that has room, or waits for room", () => {
    const full = host("x", { placed: 2, maxAgents: 2 });
    expect(place(null, [full, host("y", { placed: 9 })])).toEqual({ host: "y" });
    expect(place(null, [full])).toEqual({ waitsFor: "a host with room for another agent" });
    expect(place(null, [{ ...full, placed: 1 }])).toEqual({ host: "x" });
  });

  test("goes to the host with less load among equals, then to the first by name", () => {
    expect(place(null, [host("x", { loadAverage: 2 }), host("y", { loadAverage: 1 })])).toEqual({
      host: "y",
    });
    expect(place(null, [host("y"), host("x")])).toEqual({ host: "x" });
  });

  test("goes only to a host that is connected, not draining, and has the agent", () => {
    const hosts = [
      gone("x", 1),
      host("y", { state: "draining" }),
      host("z", { agents: ["b"] }),
      host("q", { placed: 99 }),
    ];
    expect(place(null, hosts)).toEqual({ host: "q" });
    expect(place(null, hosts.slice(0, 3))).toEqual({ waitsFor: 'a host that offers the agent "a"' });
    expect(place(null, hosts.slice(0, 2))).toEqual({ waitsFor: "a host" });
    expect(place(null, [])).toEqual({ waitsFor: "a host" });
  });

  test("is also a session whose home is forgotten", () => {
    expect(place("long ago", [host("x")], { sharedFiles: false })).toEqual({ host: "x" });
  });

  test("is placed evenly", () => {
    const hosts = [host("x"), host("y", { capacity: 20 }), host("z")];
    for (let i = 0; i < 40; i += 1) {
      const decision = place(null, hosts);
      const chosen = hosts.find(({ name }) => "host" in decision && decision.host === name);
      if (chosen) chosen.placed += 1;
    }
    expect(hosts.map(({ placed }) => placed)).toEqual([10, 20, 10]);
  });
});

describe("a session with a home", () => {
  test("waits for room at home, or goes elsewhere if it may", () => {
    const hosts = [host("x", { placed: 2, maxAgents: 2 }), host("y")];
    expect(place("x", hosts)).toEqual({ waitsFor: 'host "x", which runs 2 agents, its limit' });
    expect(place("x", hosts, { sharedFiles: true })).toEqual({ host: "y" });
  });

  test("goes home, however high the load", () => {
    for (const sharedFiles of [false, true])
      expect(place("x", [host("x", { placed: 1000 }), host("y")], { sharedFiles })).toEqual({ host: "x" });
  });

  test("waits while its host may come back, even if all hosts have the files", () => {
    for (const sharedFiles of [false, true])
      expect(place("x", [gone("x", GRACE - 1), host("y")], { sharedFiles })).toEqual({
        waitsFor: expect.stringContaining('host "x", which has been gone since 1970-01-01T'),
      });
  });

  test("goes elsewhere after the grace if all hosts have the files, and otherwise waits on", () => {
    const hosts = [gone("x", GRACE), host("y")];
    expect(place("x", hosts, { sharedFiles: true })).toEqual({ host: "y" });
    expect(place("x", hosts)).toEqual({ waitsFor: expect.stringContaining('host "x"') });
    expect(place("x", hosts.slice(0, 1), { sharedFiles: true })).toEqual({
      waitsFor: expect.stringMatching(/^host "x", .*, or any other that has the agent$/),
    });
  });

  test.each([
    ["is being drained", host("x", { state: "draining" })],
    ["has left", gone("x", 0, { hasLeft: true })],
    ["lost the agent", host("x", { agents: ["b"] })],
  ])(
    "goes elsewhere at once when its host %s and all hosts have the files, and otherwise waits",
    (_, home) => {
      expect(place("x", [home, host("y")], { sharedFiles: true })).toEqual({ host: "y" });
      expect(place("x", [home, host("y")])).toEqual({ waitsFor: expect.stringContaining('host "x"') });
    },
  );
});

test("a host is overdue when it is away for longer than the grace or has left", () => {
  expect(isOverdue(host("x", { lastSeenAt: 0 }), GRACE, NOW)).toBe(false);
  expect(isOverdue(gone("x", GRACE - 1), GRACE, NOW)).toBe(false);
  expect(isOverdue(gone("x", GRACE), GRACE, NOW)).toBe(true);
  expect(isOverdue(gone("x", 0, { hasLeft: true }), GRACE, NOW)).toBe(true);
});

describe("a container", () => {
  const helps = (home: string | null, hosts: Candidate[], sharedFiles = false, agent = "a") =>
    wouldHelp("container", { agent, home }, hosts, { sharedFiles, hostGraceMs: GRACE }, NOW);
  const asleep = gone("container", 1, { hasLeft: true });

  test("helps a session without a home, and a session at home in the container", () => {
    expect(helps(null, [])).toBe(true);
    expect(helps("container", [asleep])).toBe(true);
    expect(helps("container", [asleep, host("x")])).toBe(true);
  });

  test("does not have the files of another host unless all hosts share them", () => {
    expect(helps("x", [gone("x", GRACE)])).toBe(false);
    expect(helps("x", [gone("x", GRACE)], true)).toBe(true);
    expect(helps("x", [gone("x", GRACE - 1)], true)).toBe(false);
  });

  test("may have any agent before its first run, and its known agents afterwards", () => {
    expect(helps(null, [], false, "b")).toBe(true);
    expect(helps(null, [asleep], false, "b")).toBe(false);
  });
});
