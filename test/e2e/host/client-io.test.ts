import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { clientCapabilities } from "../../../src/host/agent/client-capabilities.ts";
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

const offerIn = (session: FakeSession): unknown =>
  JSON.parse(session.events<string>("sent")[0] as string).params.clientCapabilities;

test("an agent that is offered no files is served all the same", async () => {
  const offers = { without: ["fs.readTextFile", "fs.writeTextFile"] } as const;
  const { gateway, root } = await startHost({ agents: [{ ...fixture("fixture"), offers }] });
  writeFileSync(join(root, "file"), "text");
  const session = await gateway.open("s");
  session.tell("write", { chunks: [Buffer.from(`${READ}\n`).toString("base64")] });
  const [answer] = await gateway.until(() => {
    const answers = session.events<string>("answer");
    return answers.length > 0 && answers;
  });
  expect(JSON.parse(answer as string).result).toEqual({ content: "text" });
  expect(offerIn(session)).not.toHaveProperty("fs");
});

test("the order for a process says who serves its files, also for a warm process", async () => {
  const { gateway, root } = await startHost({ agents: [{ ...fixture("fixture"), default: true }] });
  writeFileSync(join(root, "file"), "text");
  await gateway.until(() => gateway.said("agent").length);

  const session = await gateway.open("s", "fixture", 1, "client");
  expect(await read(gateway, session)).toEqual([]);
  expect(session.hellos[0]).toMatchObject({ io: "client" });
  expect(offerIn(session)).toEqual(clientCapabilities("client"));

  const other = await gateway.open("other", "fixture", 2);
  other.tell("write", { chunks: [Buffer.from(`${READ}\n`).toString("base64")] });
  await gateway.until(() => other.events("answer").length);
  expect(other.hellos[0]).not.toHaveProperty("io");
  expect(offerIn(other)).toEqual(clientCapabilities("host"));
});
