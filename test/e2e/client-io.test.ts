import { client, methods, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { expect, test } from "vitest";
import { startGateway } from "./gateway.ts";

test("an agent works on the files and in the terminals of its editor, wherever the editor runs", async () => {
  await using gateway = await startGateway();
  const changed = await gateway.api(`/api/workspaces/${gateway.workspace}`, {
    method: "PUT",
    body: '{"clientIo":"client"}',
  });
  expect(changed.status).toBe(200);

  const files = new Map([["/home/me/project/a.txt", "one\ntwo\n"]]);
  const commands: unknown[] = [];
  let said = "";
  const editor = client({ name: "e2e" })
    .onNotification(methods.client.session.update, ({ params: { update } }) => {
      if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text")
        said += update.content.text;
    })
    .onRequest(methods.client.fs.readTextFile, ({ params }) => {
      const content = files.get(params.path);
      if (content === undefined) throw new Error(`no ${params.path} here`);
      return { content };
    })
    .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
      files.set(params.path, params.content);
      return {};
    })
    .onRequest(methods.client.terminal.create, ({ params: { args, cwd } }) => {
      commands.push({ args, cwd });
      return { terminalId: "mine" };
    })
    .onRequest(methods.client.terminal.waitForExit, () => ({ exitCode: 0 }))
    .onRequest(methods.client.terminal.output, () => ({ output: "from the editor", truncated: false }))
    .onRequest(methods.client.terminal.release, () => ({}))
    .connect(createWebSocketStream(`${gateway.wsUrl}?token=${gateway.token}`));
  const { agent } = editor;
  await agent.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  const { sessionId } = await agent.request(methods.agent.session.new, {
    cwd: "/home/me/project",
    mcpServers: [],
  });
  const prompt = async (text: string) => {
    said = "";
    await agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
    return said;
  };

  expect(await prompt("/read a.txt")).toContain(`Read 8 characters from ${gateway.root}/a.txt`);
  expect(await prompt("/edit sub/b.txt hello")).toContain("Wrote 6 characters");
  expect(files.get("/home/me/project/sub/b.txt")).toBe("hello\n");
  expect(await prompt("/terminal make")).toContain("from the editor");
  expect(commands).toEqual([{ args: ["-c", "make"], cwd: "/home/me/project" }]);

  const log = await (await gateway.api(`/api/sessions/${sessionId}/events`)).text();
  const kinds = [...log.matchAll(/"kind":"(client\.[^"]+)"/g)].map(([, kind]) => kind);
  expect(kinds).toEqual([
    "client.fs.read",
    "client.fs.read",
    "client.fs.write",
    "client.terminal.create",
    "client.terminal.wait_for_exit",
    "client.terminal.output",
    "client.terminal.release",
  ]);
  editor.close();
});
