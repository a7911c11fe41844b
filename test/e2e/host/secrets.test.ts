import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { fixture, startHost } from "./harness.ts";

describe("a host with secrets", () => {
  const SECRET = "sk-very/secret+value";
  const needy = (id: string, ...args: string[]) => ({ ...fixture(id, ...args), requires: ["FIXTURE_KEY"] });
  const secrets = (values: Record<string, string>) => JSON.stringify({ t: "secrets", values });

  test("offers an agent as soon as the gateway has sent the secret that it needs", async () => {
    const { gateway } = await startHost({ agents: [{ ...needy("fixture"), default: true }] });
    const hello = await gateway.until(() => gateway.control.find((message) => message.t === "hello"));
    expect(hello).toMatchObject({
      agents: [{ id: "fixture", available: false, reason: "needs FIXTURE_KEY" }],
    });
    const refused = await gateway.open("early");
    await gateway.until(() => refused.exit);
    expect(refused.exit?.error).toBe("the agent could not be started: agent fixture needs FIXTURE_KEY");

    gateway.controlSocket?.send(secrets({ FIXTURE_KEY: SECRET }));
    const offers = await gateway.until(() => gateway.control.find((message) => message.t === "offers"));
    expect(offers).toMatchObject({ agents: [{ id: "fixture", available: true }] });
    // The default agent has a warm process now.
    await gateway.until(() => gateway.control.find(({ t }) => t === "agent"));
    const session = await gateway.open("s");
    session.tell("environment");
    const { environment } = await gateway.until(() => session.frames.find((frame) => frame.environment));
    expect(environment).toContain("FIXTURE_KEY");
  });

  test("gives a secret only to the agents that declare it", async () => {
    const { gateway } = await startHost({ agents: [needy("needy"), fixture("fixture")] });
    await gateway.until(() => gateway.controlSocket);
    gateway.controlSocket?.send(secrets({ FIXTURE_KEY: SECRET }));
    const session = await gateway.open("s");
    session.tell("environment");
    const { environment } = await gateway.until(() => session.frames.find((frame) => frame.environment));
    expect(environment).not.toContain("FIXTURE_KEY");
  });

  test("leaks no secret in frames, noise, command lines, exits, files that are read, or logs", async () => {
    const { gateway, root, log } = await startHost({ agents: [needy("fixture", "normal", SECRET)] });
    await gateway.until(() => gateway.controlSocket);
    gateway.controlSocket?.send(secrets({ FIXTURE_KEY: SECRET }));
    const session = await gateway.open("s");
    const lines = [
      JSON.stringify({ method: "update", text: `my key is ${SECRET}` }),
      `noise with ${SECRET}`,
      JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "fs/write_text_file",
        params: { sessionId: "s", path: join(root, ".env"), content: SECRET },
      }),
      JSON.stringify({
        jsonrpc: "2.0",
        id: 2,
        method: "fs/read_text_file",
        params: { sessionId: "s", path: join(root, ".env") },
      }),
    ];
    session.tell("write", { chunks: [Buffer.from(`${lines.join("\n")}\n`).toString("base64")] });
    await gateway.until(() => session.events("answer").length === 2);
    session.tell("complain", { text: `rejected: ${SECRET}` });
    await gateway.until(() => session.exit);
    expect(session.exit?.stderr).toContain("rejected: [redacted:FIXTURE_KEY]");
    expect(session.events("started")).toEqual([
      expect.objectContaining({ command: expect.stringContaining("[redacted:FIXTURE_KEY]") }),
    ]);
    expect(readFileSync(join(root, ".env"), "utf8")).toBe(SECRET);
    expect(session.items.join("\n")).not.toContain(SECRET);
    expect(JSON.stringify(gateway.control)).not.toContain(SECRET);
    expect(log.join("\n")).not.toContain(SECRET);
  });

  test("refuses to write the mark of a secret in place of the secret", async () => {
    const { gateway, root } = await startHost({ agents: [needy("fixture")] });
    await gateway.until(() => gateway.controlSocket);
    gateway.controlSocket?.send(secrets({ FIXTURE_KEY: SECRET }));
    const session = await gateway.open("s");
    const MARK = "[redacted:FIXTURE_KEY]";
    const env = join(root, ".env");
    const guide = join(root, "guide.md");
    writeFileSync(env, `MODE=one\nKEY=${SECRET}\n`);
    writeFileSync(guide, `A secret looks like ${MARK}.\n`);
    const request = async (method: string, params: object) => {
      const line = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { sessionId: "s", ...params } });
      const before = session.events("answer").length;
      session.tell("write", { chunks: [Buffer.from(`${line}\n`).toString("base64")] });
      await gateway.until(() => session.events("answer").length > before);
      return JSON.parse(session.events<string>("answer").at(-1) ?? "") as {
        result?: { content: string };
        error?: { message: string };
      };
    };
    const write = (path: string, content: string) => request("fs/write_text_file", { path, content });

    const content = (await request("fs/read_text_file", { path: env })).result?.content ?? "";
    expect(content).toBe(`MODE=one\nKEY=${MARK}\n`);
    const refused = await write(env, content.replace("one", "two"));
    expect(refused.error).toMatchObject({
      code: -32602,
      message: expect.stringContaining(`${MARK} in the content stands for a secret`),
      data: { reason: "redaction-mark", marks: [MARK] },
    });
    expect(readFileSync(env, "utf8")).toBe(`MODE=one\nKEY=${SECRET}\n`);
    // A copy would have lost the secret as well.
    expect((await write(join(root, "copy"), content)).error).toMatchObject({ code: -32602 });
    expect(existsSync(join(root, "copy"))).toBe(false);

    // The mark of no secret, a mark that the file has as plain text, and a content without marks.
    for (const [path, text] of [
      [join(root, "other"), "[redacted:NOBODY]"],
      [guide, `Here a secret looks like ${MARK}.\n`],
      [env, "MODE=two\n"],
    ] as const) {
      expect(await write(path, text)).toMatchObject({ result: {} });
      expect(readFileSync(path, "utf8")).toBe(text);
    }
    expect((await write(guide, `${MARK} and ${MARK}`)).error).toMatchObject({ code: -32602 });
  });

  test("replaces a warm process when its secrets change", async () => {
    const { gateway } = await startHost({ agents: [{ ...needy("fixture"), default: true }] });
    await gateway.until(() => gateway.controlSocket);
    gateway.controlSocket?.send(secrets({ FIXTURE_KEY: "first-value" }));
    await gateway.until(() => gateway.control.find(({ t }) => t === "agent"));
    gateway.controlSocket?.send(secrets({ FIXTURE_KEY: "second-value" }));
    await gateway.until(() => gateway.control.filter(({ t }) => t === "offers").length === 2);
    const session = await gateway.open("s");
    session.tell("variable", { name: "FIXTURE_KEY", from: 0, to: 6 });
    expect((await gateway.until(() => session.frames.find((frame) => frame.variable))).variable).toBe(
      "second",
    );
  });
});
