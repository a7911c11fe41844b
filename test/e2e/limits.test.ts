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
