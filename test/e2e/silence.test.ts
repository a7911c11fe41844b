/** Clients that vanish, and clients that are only quiet. */
import { expect, test } from "vitest";
import { BadNetwork } from "./bad-network.ts";
import { Client } from "./client.ts";
import { openEditor } from "./editor.ts";
import { eventually, startGateway } from "./gateway.ts";

test("[I7] a vanished client is detached, a quiet one stays, and the turn goes on", async () => {
  const limits = { socketIdleMs: 1000, pongMs: 500, resumeSilentMs: 2000 };
  await using gateway = await startGateway({ env: { ACP_EDGE_LIMITS: JSON.stringify(limits) } });
  await using network = await BadNetwork.to(gateway.url);
  await using quiet = await Client.connect(gateway);
  const session = await quiet.newSession();
  const pings = () => quiet.wire.entries.filter(({ message }) => message.method === "_acp-edge/ping").length;
  const present = async () => {
    const view = await (await gateway.api(`/api/sessions/${session}`)).json();
    return (view as { clients: unknown[] }).clients.length;
  };

  const gone = await Client.connect({ ...gateway, wsUrl: network.url(gateway.wsUrl) });
  await gone.load(session);
  const lost = gone.prompt(session, "/stream 300 20 10").catch(() => {});
  await gone.hears(session, "000010 ");
  expect(await present()).toBe(2);
  network.freeze();
  await eventually(async () => (await present()) === 1);
  await quiet.hears(session, "000299 ");
  await eventually(() => pings() >= 3);
  expect(await present()).toBe(1);
  expect((await quiet.prompt(session, "/stream 5 20")).stopReason).toBe("end_turn");

  // A quiet resumable client sends only heartbeats.
  const editor = await openEditor(gateway.wsUrl, gateway.token);
  const other = await editor.newSession();
  await eventually(() => pings() >= 6);
  expect(await editor.prompt(other, "/stream 5 20")).toEqual({ stopReason: "end_turn" });
  await editor.end();
  expect(editor.stderr).toBe("");
  network.cut();
  await lost;
});
