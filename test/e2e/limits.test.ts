import { expect, test } from "vitest";
import { Client } from "./client.ts";
import { startGateway } from "./gateway.ts";

test("a full history without an archive takes no more prompts, and everything stays readable", async () => {
  await using gateway = await startGateway({ env: { ACP_EDGE_LIMITS: '{"historyChars": 50000}' } });
  const client = await Client.connect(gateway);
  const sessionId = await client.newSession();
  await client.prompt(sessionId, "/stream 500 120");
  await expect(client.prompt(sessionId, "more")).rejects.toMatchObject({
    code: -32600,
    message: expect.stringContaining("history is full"),
  });
  const log = await (await gateway.api(`/api/sessions/${sessionId}/events`)).text();
  expect(log.match(/agent_message_chunk/g)).toHaveLength(500);
  const markdown = await gateway.api(`/api/sessions/${sessionId}/export?format=markdown`);
  expect(markdown.status).toBe(200);
  expect(await markdown.text()).toContain("000499");
});

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
