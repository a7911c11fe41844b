import { describe, expect, test } from "vitest";
import type { FakeGateway } from "./fake-gateway.ts";
import { startHost } from "./harness.ts";

const hellos = (gateway: FakeGateway) => gateway.control.filter((message) => message.t === "hello");

describe("the control link", () => {
  test("says who the host is and what it offers", async () => {
    const { gateway, root } = await startHost();
    await gateway.until(() => gateway.controlSocket);
    expect(gateway.upgrades[0]?.url).toBe("/host/control?workspace=w");
    expect(gateway.upgrades[0]?.headers.authorization).toBe("Bearer secret");
    expect(gateway.control).toEqual([
      {
        t: "hello",
        version: 1,
        name: "test-host",
        instance: expect.any(String),
        root,
        agents: [{ id: "fixture", name: "fixture", default: false, available: true }],
        runs: [],
      },
    ]);
  });

  test("comes back by itself, with the runs that are alive and what is known of the agents", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    await gateway.until(() => gateway.control.find(({ t }) => t === "agent"));
    const seen = gateway.control.length;
    gateway.controlSocket?.terminate();
    await gateway.until(() => gateway.control.length === seen + 2);
    const [hello, agent] = gateway.control.slice(seen);
    expect(hello).toMatchObject({ t: "hello", runs: [{ sessionId: "s", run: session.hellos[0]?.run }] });
    expect(agent).toMatchObject({ t: "agent", id: "fixture", initialize: { protocolVersion: 1 } });
    expect(hellos(gateway)[0]?.instance).toBe(hellos(gateway)[1]?.instance);
  });

  test("keeps trying while the gateway is in trouble", async () => {
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
    await expect.poll(() => refusals).toEqual([`HTTP ${status}: is the host token right?`]);
  });

  test("gives up when it is refused", async () => {
    const { gateway, refusals } = await startHost();
    const socket = await gateway.until(() => gateway.controlSocket);
    socket.send('{"t":"refused","reason":"wrong version"}');
    await gateway.until(() => gateway.controlSocket === undefined);
    expect(refusals).toEqual(["wrong version"]);
  });
});

describe("opening a session", () => {
  test("twice gives one run", async () => {
    const { gateway } = await startHost();
    const session = await gateway.open("s");
    await gateway.open("s");
    session.tell("hello");
    await gateway.until(() => session.frames.find((frame) => frame.echo));
    expect(session.hellos).toHaveLength(1);
  });

  test("whose run is on its way out starts the next one after it", async () => {
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
