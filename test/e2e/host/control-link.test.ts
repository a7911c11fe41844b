import { describe, expect, test } from "vitest";
import type { FakeGateway } from "./fake-gateway.ts";
import { startHost } from "./harness.ts";

const hellos = (gateway: FakeGateway) => gateway.control.filter((message) => message.t === "hello");

describe("the control link", () => {
  test("introduces the host and its agents", async () => {
    const { gateway, root } = await startHost();
    await gateway.until(() => gateway.controlSocket);
    expect(gateway.upgrades[0]?.url).toBe("/host/control?workspace=w");
    expect(gateway.upgrades[0]?.headers.authorization).toBe("Bearer secret");
    expect(gateway.said("hello")).toEqual([
      {
        t: "hello",
        version: 4,
        name: "test-host",
        instance: expect.any(String),
        root,
        software: {
          version: "0.1.0",
          node: process.version,
          platform: `${process.platform} ${process.arch}`,
        },
        capacity: expect.any(Number),
        isolation: "none",
        draining: false,
        agents: [{ id: "fixture", name: "fixture", default: false, available: true }],
        runs: [],
      },
    ]);
  });

  test("reconnects by itself, and repeats live runs and reports on agents", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    await gateway.until(() => gateway.control.find(({ t }) => t === "agent"));
    await gateway.until(
      () => gateway.said("workspace").length === 1 && gateway.said("load").at(-1)?.runs === 1,
    );
    const seen = gateway.control.length;
    gateway.controlSocket?.terminate();
    await gateway.until(() => gateway.control.length === seen + 4);
    const [hello, agent, load, files] = gateway.control.slice(seen);
    expect(load).toMatchObject({ t: "load", runs: 1, loadAverage: expect.any(Number) });
    expect(files).toEqual({ t: "workspace", git: null });
    expect(hello).toMatchObject({ t: "hello", runs: [{ sessionId: "s", run: session.hellos[0]?.run }] });
    expect(agent).toMatchObject({ t: "agent", id: "fixture", initialize: { protocolVersion: 1 } });
    expect(hellos(gateway)[0]?.instance).toBe(hellos(gateway)[1]?.instance);
  });

  test("uses the last token that the gateway issued", async () => {
    const { gateway } = await startHost();
    await gateway.until(() => gateway.controlSocket);
    gateway.say({ t: "token", token: "newer" });
    const session = await gateway.open("s");
    await gateway.until(() => session.hellos.length);
    expect(gateway.upgrades.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer secret",
      "Bearer newer",
    ]);
  });

  test("keeps trying while the gateway fails", async () => {
    const { gateway, refusals } = await startHost();
    await gateway.until(() => gateway.controlSocket);
    gateway.refusals.set("/host/control", 503);
    const seen = gateway.upgrades.length;
    gateway.controlSocket?.terminate();
    await gateway.until(() => gateway.upgrades.length >= seen + 3);
    gateway.refusals.clear();
    await gateway.until(() => hellos(gateway).length === 2);
    expect(refusals).toEqual([]);
  });

  test.each([401, 403])("gives up on HTTP %i", async (status) => {
    const { gateway, refusals } = await startHost();
    await gateway.until(() => gateway.controlSocket);
    gateway.refusals.set("/host/control", status);
    gateway.controlSocket?.terminate();
    await expect.poll(() => refusals).toEqual([`HTTP ${status}: check the host token`]);
  });

  test("renews its token before it expires", async () => {
    let token = "old";
    const { gateway, log } = await startHost({ token: async () => token });
    await gateway.until(() => gateway.controlSocket);
    token = "new";
    gateway.say({ t: "expiring", expiresAt: new Date().toISOString() });
    await gateway.until(() => gateway.said("renew").length);
    expect(gateway.said("renew")).toEqual([{ t: "renew", token: "new" }]);
    gateway.say({ t: "not_renewed", reason: "for a reason" });
    await expect.poll(() => log).toContain("token not renewed: for a reason");
  });

  test("reconnects with another token when its own is refused", async () => {
    const { gateway, refusals } = await startHost({
      token: (refused) => (refused === undefined ? "old" : `not ${refused}`),
    });
    const socket = await gateway.until(() => gateway.controlSocket);
    socket.close(4401, "token revoked");
    await gateway.until(() => hellos(gateway).length === 2);
    expect(gateway.upgrades.map(({ headers }) => headers.authorization)).toEqual([
      "Bearer old",
      "Bearer not old",
    ]);
    gateway.refusals.set("/host/control", 401);
    gateway.controlSocket?.close(4401, "token revoked");
    await expect.poll(() => refusals).toEqual(["HTTP 401: check the host token"]);
  });

  test("keeps trying with growing delays while another host has its name", async () => {
    const { gateway, refusals, log } = await startHost({ timing: { retryMinMs: 100, retryMaxMs: 2000 } });
    await gateway.until(() => gateway.controlSocket);
    gateway.answer = { t: "refused", reason: 'Another host is called "test-host"', why: "name" };
    gateway.controlSocket?.terminate();
    await gateway.until(() => gateway.said("hello").length === 5);
    gateway.answer = { t: "welcome" };
    await gateway.until(() => gateway.said("hello").length === 6);
    expect(refusals).toEqual([]);
    const told = log.filter((line) => line.includes('Another host is called "test-host"'));
    expect(told).toHaveLength(4);
    // Delays double, and at most half of a delay is left out at random: the fourth is longer than the first.
    const delays = told.map((line) => Number(/again in ([\d.]+) s/.exec(line)?.[1]));
    expect(delays[3]).toBeGreaterThan(delays[0] as number);
  });

  test("answers a probe", async () => {
    const { gateway } = await startHost();
    await gateway.until(() => gateway.controlSocket);
    gateway.say({ t: "probe" });
    await gateway.until(() => gateway.said("alive").length);
  });

  test("gives up when the gateway refuses the host", async () => {
    const { gateway, refusals } = await startHost();
    const socket = await gateway.until(() => gateway.controlSocket);
    socket.send('{"t":"refused","reason":"wrong version"}');
    await gateway.until(() => gateway.controlSocket === undefined);
    expect(refusals).toEqual(["wrong version"]);
  });
});

describe("opening a session", () => {
  test("twice starts one run", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s", "fixture", 5);
    await gateway.open("s", "fixture", 5);
    session.tell("hello");
    await gateway.until(() => session.frames.find((frame) => frame.echo));
    expect(session.hellos).toHaveLength(1);
  });

  test("starts the next run of a session after the end of the current run", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    await gateway.until(() => session.frames.length);
    session.acking = false;
    session.tell("exit", { code: 0 });
    await gateway.until(() => session.exit);
    await gateway.open("s");
    session.ack();
    await gateway.until(() => session.hellos.length === 2 && session.frames.length);
    expect(session.hellos[0]?.run).not.toBe(session.hellos[1]?.run);
    expect(session.exit).toBeUndefined();
  });
});
