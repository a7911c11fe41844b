import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../../src/protocol/limits.ts";
import { SETTINGS_CHANGE } from "../../../../src/protocol/workspace-settings.ts";
import { agentsOf, mainHost } from "../../../../src/workspace/agents/agents.ts";
import type { Offer } from "../../../../src/workspace/agents/offer.ts";
import type { HostRecord } from "../../../../src/workspace/hosts/record.ts";
import { defaultSettings } from "../../../../src/workspace/settings.ts";

const NOW = 1_000_000_000;

function host(name: string, more: Partial<HostRecord> = {}): HostRecord {
  return {
    name,
    instance: "i",
    state: "connected",
    root: `/${name}`,
    about: { version: "1", linkVersion: 2, node: "v24", platform: "linux" },
    capacity: 1,
    load: null,
    git: null,
    connectedAt: 1,
    lastSeenAt: NOW,
    hasLeft: false,
    isNotified: false,
    token: null,
    ...more,
  };
}

function offer(on: string, id: string, more: Partial<Offer> = {}): Offer {
  const about = { available: true, reason: null, description: null, version: null, aliases: [] };
  return { host: on, id, name: id, isDefault: false, ...about, initialize: null, error: null, ...more };
}

const agents = (hosts: HostRecord[], offers: Offer[], settings = {}) =>
  agentsOf(hosts, offers, { ...defaultSettings(DEFAULT_LIMITS), ...settings }, NOW);

describe("the agents of a workspace", () => {
  test("are the agents of all its hosts, the default first", () => {
    const offers = [
      offer("x", "a"),
      offer("x", "b", { isDefault: true }),
      offer("y", "c", { isDefault: true }),
    ];
    expect(agents([host("x"), host("y")], offers).map(({ id, default: d }) => [id, d])).toEqual([
      ["b", true],
      ["a", false],
      ["c", false],
    ]);
    const [first] = agents([host("x"), host("y")], offers, { defaultAgent: "a" });
    expect(first).toMatchObject({ id: "a", default: true });
    expect(agents([host("x")], offers, { defaultAgent: "nobody's" })[0]?.id).toBe("b");
  });

  test("are ready when one host has them, and broken when every host that tried failed", () => {
    const hosts = [host("x"), host("y")];
    const failed = offer("x", "a", { error: "no key" });
    expect(agents(hosts, [failed])).toMatchObject([{ ready: false, error: "no key" }]);
    expect(agents(hosts, [failed, offer("y", "a")])).toMatchObject([{ ready: false, error: null }]);
    expect(agents(hosts, [failed, offer("y", "a", { initialize: "{}" })])).toMatchObject([
      { ready: true, error: null, initialize: "{}" },
    ]);
  });

  test("are remembered from a host long gone, but not offered while another host is there", () => {
    const old = host("x", { state: "gone", lastSeenAt: 0 });
    const offers = [offer("x", "a"), offer("y", "b")];
    expect(agents([old, host("y")], offers).map(({ id }) => id)).toEqual(["b"]);
    expect(agents([old], offers).map(({ id }) => id)).toEqual(["a"]);
    const recent = host("x", { state: "gone", lastSeenAt: NOW });
    expect(agents([recent, host("y")], offers).map(({ id }) => id)).toEqual(["a", "b"]);
  });
});

test("the newest connected host speaks for a workspace", () => {
  const hosts = [host("x", { connectedAt: 1 }), host("y", { connectedAt: 2, state: "gone" })];
  expect(mainHost(hosts)?.name).toBe("x");
  expect(mainHost(hosts.slice(1))?.name).toBe("y");
  expect(mainHost([])).toBeUndefined();
});

test.each([
  null,
  {},
  { nmae: "typo" },
  { name: "" },
  { sharedFiles: "yes" },
  { hostGraceMs: -1 },
  { clientIo: "both" },
  { container: { image: "x" } },
  { container: { env: ["A=secret"] } },
  { container: { agents: ["a,b"] } },
  { container: { git: { url: "file:///etc" } } },
  { container: { git: { url: "https://example.com/x", ref: "--upload-pack=x" } } },
  { policy: { default: "maybe" } },
])("the settings refuse %j", (change) => {
  expect(SETTINGS_CHANGE.safeParse(change).success).toBe(false);
});

test("a change of settings has its own members and no others", () => {
  expect(SETTINGS_CHANGE.parse({ sharedFiles: true })).toEqual({ sharedFiles: true });
  expect(SETTINGS_CHANGE.parse({ name: null, container: { agents: ["a"] } })).toEqual({
    name: null,
    container: { agents: ["a"] },
  });
});
