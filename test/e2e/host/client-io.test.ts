import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { FakeGateway, FakeSession } from "./fake-gateway.ts";
import { fixture, startHost } from "./harness.ts";

const READ = '{"id":1,"method":"fs/read_text_file","params":{"path":"file"}}';

/** Makes the agent read a file, and returns the host's answers after the agent's next message. */
async function read(gateway: FakeGateway, session: FakeSession): Promise<string[]> {
  session.tell("write", { chunks: [Buffer.from(`${READ}\n`).toString("base64")] });
  session.tell("end");
  await gateway.until(() => session.frames.find((frame) => frame.echo));
  expect(session.items).toContain(READ);
  return session.events<string>("answer");
}

test("processes that start after the workspace chose client files leave file requests to the session", async () => {
  const { gateway, root } = await startHost({ agents: [{ ...fixture("fixture"), default: true }] });
  writeFileSync(join(root, "file"), "text");
  // The warm process started before the gateway could name the server of its files.
  await gateway.until(() => gateway.said("agent").length);
  const before = await gateway.open("before");
  await gateway.until(() => before.frames.length);
  gateway.say({ t: "settings", clientIo: "client" });

  const session = await gateway.open("s");
  expect(await read(gateway, session)).toEqual([]);
  expect(session.hellos[0]).toMatchObject({ io: "client" });
  expect(JSON.parse(session.events<string>("sent")[0] as string).params.clientCapabilities).toEqual({
    fs: { readTextFile: true, writeTextFile: true },
    terminal: true,
  });

  before.tell("write", { chunks: [Buffer.from(`${READ}\n`).toString("base64")] });
  await gateway.until(() => before.events("answer").length);
  expect(before.hellos[0]).not.toHaveProperty("io");

  gateway.say({ t: "settings" });
  const after = await gateway.open("after");
  await gateway.until(() => after.frames.length);
  expect(after.hellos[0]).not.toHaveProperty("io");
});

test("a host that reconnects is told again who serves the files", async () => {
  const { gateway } = await startHost();
  await gateway.until(() => gateway.controlSocket);
  gateway.answer = { t: "welcome", clientIo: "client" };
  const greetings = gateway.said("hello").length;
  gateway.controlSocket?.terminate();
  await gateway.until(() => gateway.said("hello").length > greetings);
  const session = await gateway.open("s");
  expect(await read(gateway, session)).toEqual([]);
});
