import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { connectionOf, connectionStub, openSession, sessionStub, texts, workspaceName } from "../fixtures.ts";
import { Resumable } from "../peers/resumable-client.ts";
import { TRANSPORTS } from "../peers/transports.ts";

const UNREADABLE = { code: 1012, reason: "connection state unreadable" };

type Attachment = Record<string, unknown>;

/** Changes the attachments of an object's sockets, and puts the object to sleep. */
async function changeAttachments(
  object: DurableObjectStub,
  change: (attachment: Attachment) => unknown,
): Promise<void> {
  await runInDurableObject(object, (_, state) => {
    for (const socket of state.getWebSockets())
      socket.serializeAttachment(change(socket.deserializeAttachment() as Attachment));
  });
  await evictDurableObject(object);
}

function replaceAttachments(object: DurableObjectStub, attachment: unknown): Promise<void> {
  return changeAttachments(object, () => attachment);
}

describe("a socket whose attachment is unreadable after a wake", () => {
  test.each([null, { kind: "unknown" }, { kind: "client", cursors: 1 }])(
    "when it is a client's: %j",
    async (attachment) => {
      const [plain] = TRANSPORTS;
      const client = await plain?.open(workspaceName());
      await replaceAttachments(connectionStub(client?.connection ?? ""), attachment);
      await client?.send({ jsonrpc: "2.0", id: 1, method: "session/list", params: {} });
      expect(await client?.closed).toEqual(UNREADABLE);
    },
  );

  test("is closed if it is a resumable client's, which then finds its connection as it was", async () => {
    const client = await Resumable.open(workspaceName());
    await replaceAttachments(client.object, { kind: "resumable", greeted: "yes" });
    client.send([{ id: "list", method: "session/list", params: {} }]);
    expect(await client.peer.closed).toEqual(UNREADABLE);
    await client.dial();
    client.send([{ id: "list", method: "session/list", params: {} }], 2);
    await client.until(() => client.answers("list").length > 0);
  });

  test("is closed if it is a host's", async () => {
    const { agent, sessionId } = await openSession();
    await replaceAttachments(sessionStub(sessionId), { kind: "host-link", run: 1 });
    agent.update("hello");
    expect(await agent.link.closed).toEqual(UNREADABLE);
  });

  test("is closed if a newer release has written its attachment in another form", async () => {
    const { agent, sessionId } = await openSession();
    await changeAttachments(sessionStub(sessionId), (attachment) => ({ ...attachment, v: 2 }));
    agent.update("hello");
    expect(await agent.link.closed).toEqual(UNREADABLE);
  });
});

describe("a socket goes on after a wake", () => {
  test("with an attachment that has no version", async () => {
    const { client, agent, sessionId } = await openSession();
    for (const object of [sessionStub(sessionId), connectionStub(await connectionOf(sessionId))])
      await changeAttachments(object, ({ v: _, ...attachment }) => attachment);
    agent.update("hello");
    expect(texts([await client.takeJson()])).toEqual(["hello"]);
  });

  test("with an attachment to which a newer release has added fields", async () => {
    const { client, agent, sessionId } = await openSession();
    for (const object of [sessionStub(sessionId), connectionStub(await connectionOf(sessionId))])
      await changeAttachments(object, (attachment) => ({ ...attachment, added: { by: "a newer release" } }));
    agent.update("hello");
    expect(texts([await client.takeJson()])).toEqual(["hello"]);
  });
});
