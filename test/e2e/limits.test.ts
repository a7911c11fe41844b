import { expect, test } from "vitest";
import { Client } from "./client.ts";
import { startGateway } from "./gateway.ts";

test("limits that are read when the Worker loads hold", async () => {
  await using gateway = await startGateway({
    env: { ACP_EDGE_LIMITS: '{"shareSeconds": 60, "bodyBytes": 500}' },
  });
  const client = await Client.connect(gateway);
  const session = await client.newSession();
  const share = async (order: object) => {
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ session, ...order });
    return (await gateway.api("/api/shares", { method: "POST", headers, body })).status;
  };
  expect(await share({ expiresIn: 60 })).toBe(201);
  expect(await share({ expiresIn: 61 })).toBe(400);
  expect(await share({ expiresIn: 60, more: "x".repeat(500) })).toBe(413);
});
