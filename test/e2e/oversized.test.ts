/** Messages of agents that are too large: whoever waits for them gets an error at once, and the session goes on. */
import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Host } from "../../src/host/host.ts";
import { DEFAULT_TIMING } from "../../src/node/timing.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { Client } from "./client.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { textOf } from "./updates.ts";

const AGENT = fileURLToPath(new URL("host/fixtures/oversized-agent.mjs", import.meta.url));

let gateway: Gateway;
let host: Host;
beforeAll(async () => {
  gateway = await startGateway();
  host = new Host({
    gateway: {
      url: gateway.url,
      token: () => gateway.hostToken,
      // An agent that is waited for fails the tests by their own timeout.
      timing: { ...DEFAULT_TIMING, initializeMs: 600_000 },
      limits: DEFAULT_LIMITS,
      log: () => {},
    },
    workspace: gateway.workspace,
    name: "oversized",
    root: realpathSync(gateway.root),
    agents: [
      { id: "fine", name: "fine", command: [process.execPath, AGENT], default: false },
      { id: "huge", name: "huge", command: [process.execPath, AGENT, "initialize"], default: false },
    ],
    onRefused: (reason) => expect.unreachable(reason),
  });
});
afterAll(async () => {
  await host?.close();
  await gateway?.[Symbol.asyncDispose]();
});

async function connect(agent: string): Promise<Client> {
  let client: Client | undefined;
  await eventually(async () => {
    client = await Client.connect(gateway, { agent });
    return true;
  });
  return client as Client;
}

test("an agent whose answer to initialize is too long fails its clients at once, and they hear why", async () => {
  await using client = await connect("huge");
  await expect(client.newSession()).rejects.toMatchObject({
    code: -32603,
    message: expect.stringContaining("answer to initialize exceeds 524288 characters"),
  });
});

describe("a session goes on after", () => {
  let client: Client;
  let session: string;
  beforeAll(async () => {
    client = await connect("fine");
    session = await client.newSession();
  });
  afterAll(() => client?.close());

  test.each([
    ["long", "too long"],
    ["deep", "nested"],
  ])("an answer that is too %s, which is an error for the asker", async (size, why) => {
    await expect(client.prompt(session, size)).rejects.toMatchObject({
      message: expect.stringContaining(why),
    });
    expect((await client.prompt(session, "hi")).stopReason).toBe("end_turn");
  });

  test.each([
    ["long", "too long"],
    ["deep", "nested"],
  ])("a request that is too %s, which is an error for the agent", async (size, why) => {
    const { stopReason, updates } = await client.prompt(session, `ask-${size}`);
    expect(stopReason).toBe("end_turn");
    expect(textOf(updates)).toContain(why);
    expect((await client.prompt(session, "hi")).stopReason).toBe("end_turn");
  });
});
