import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AgentEnvironment } from "../../../src/host/agent/agent-environment.ts";
import type { OfferedAgent } from "../../../src/host/agent/offered-agents.ts";
import { Redactor } from "../../../src/host/agent/redactor.ts";
import { StderrTail } from "../../../src/host/agent/stderr-tail.ts";
import { fixture, startHost } from "./harness.ts";

const agent = (id: string, more: Partial<OfferedAgent> = {}): OfferedAgent => ({ ...fixture(id), ...more });

describe("the environment of an agent", () => {
  const claude = agent("claude", { requires: [["ANTHROPIC_API_KEY"]], accepts: ["ANTHROPIC_MODEL"] });
  const codex = agent("codex", { requires: ["OPENAI_API_KEY"], env: { MODE: "acp" } });
  const custom = agent("custom", { inherits: true });
  const host = {
    PATH: "/bin",
    HOME: "/home/me",
    LC_ALL: "C",
    ACP_EDGE_HOST_TOKEN: "host-token",
    ANTHROPIC_API_KEY: "anthropic-key",
    ANTHROPIC_MODEL: "model",
    OPENAI_API_KEY: "openai-key",
    EDITOR: "vi",
  };
  const environment = () => new AgentEnvironment(host, [claude, codex, custom]);
  const names = (variables: Record<string, string>) => Object.keys(variables).sort();

  test("is what every program needs and what its entry declares", () => {
    const env = environment();
    expect(names(env.ofAgent(claude))).toEqual([
      "ANTHROPIC_API_KEY",
      "ANTHROPIC_MODEL",
      "HOME",
      "LC_ALL",
      "PATH",
    ]);
    expect(names(env.ofAgent(codex))).toEqual(["HOME", "LC_ALL", "MODE", "OPENAI_API_KEY", "PATH"]);
    expect(env.ofAgent(codex).PATH).toMatch(/:\/bin$/);
  });

  test("of one's own command is the host's, without what is the host's own", () => {
    const given = names(environment().ofAgent(custom));
    expect(given).toContain("OPENAI_API_KEY");
    expect(given).toContain("EDITOR");
    expect(given).not.toContain("ACP_EDGE_HOST_TOKEN");
  });

  test("has the variables that all are given, if the host has them", () => {
    const env = new AgentEnvironment(host, [claude], ["EDITOR", "NOWHERE"]);
    expect(env.ofAgent(claude).EDITOR).toBe("vi");
    expect(names(env.ofTerminals(claude))).toEqual(["EDITOR", "HOME", "LC_ALL", "PATH"]);
  });

  test("has the workspace's secrets, in place of the host's, if the agent declares them", () => {
    const env = environment();
    expect(env.setSecrets({ ANTHROPIC_API_KEY: "of-the-workspace" })).toEqual([claude]);
    expect(env.ofAgent(claude).ANTHROPIC_API_KEY).toBe("of-the-workspace");
    expect(JSON.stringify(env.ofAgent(codex))).not.toContain("of-the-workspace");
    expect(JSON.stringify(env.ofTerminals(claude))).not.toContain("of-the-workspace");
    expect(env.setSecrets({ ANTHROPIC_API_KEY: "of-the-workspace", OTHER: "x" })).toEqual([]);
    expect(env.setSecrets({})).toEqual([claude]);
    expect(env.ofAgent(claude).ANTHROPIC_API_KEY).toBe("anthropic-key");
  });

  test("is known for its secrets, and only for these", () => {
    const env = environment();
    env.setSecrets({ STORED: "stored-value" });
    expect(env.redact("anthropic-key openai-key host-token stored-value /home/me model")).toBe(
      "[redacted:ANTHROPIC_API_KEY] [redacted:OPENAI_API_KEY] [redacted:ACP_EDGE_HOST_TOKEN] [redacted:STORED] /home/me model",
    );
  });
});

describe("redaction", () => {
  const secret = fc
    .string({ minLength: 8, maxLength: 40, unit: "binary" })
    .filter((s) => s.trim().length >= 8);

  test("leaves nothing of a secret in plain text, in JSON, or in JSON within JSON", () => {
    fc.assert(
      fc.property(secret, fc.string(), fc.string(), (value, before, after) => {
        const redactor = new Redactor();
        redactor.learn("NAME", value);
        const text = `${before}${value.trim()}${after}`;
        expect(redactor.redact(text)).toContain("[redacted:NAME]");
        const inJson = JSON.stringify({ text });
        const safe = JSON.parse(redactor.redactJson(inJson)) as { text: string };
        expect(safe.text).toContain("[redacted:NAME]");
        expect(safe.text).not.toContain(value.trim());
        expect(redactor.redactJson(JSON.stringify({ inJson }))).toContain("[redacted:NAME]");
      }),
      { numRuns: 1000, examples: [["\0  # #  #", "\\", ""]] },
    );
  });

  test("leaves JSON as JSON, whatever the secret is made of", () => {
    const awkward = fc.string({
      minLength: 8,
      maxLength: 12,
      unit: fc.constantFrom("\\", '"', "a", "\n", "u"),
    });
    fc.assert(
      fc.property(awkward, fc.jsonValue(), fc.string(), (value, content, more) => {
        const redactor = new Redactor();
        redactor.learn("NAME", value);
        const text = JSON.stringify({
          content,
          value,
          quoted: JSON.stringify(value),
          more: `${more}${value}"`,
        });
        expect(() => JSON.parse(redactor.redactJson(text))).not.toThrow();
      }),
      { numRuns: 1000 },
    );
  });

  test("prefers the longer of two secrets that overlap", () => {
    const redactor = new Redactor();
    redactor.learn("SHORT", "abcdefgh");
    redactor.learn("LONG", "abcdefghijkl");
    expect(redactor.redact("abcdefghijkl abcdefgh")).toBe("[redacted:LONG] [redacted:SHORT]");
  });

  test("leaves words alone", () => {
    const redactor = new Redactor();
    redactor.learn("MODE", "secret");
    expect(redactor.redact("a secret")).toBe("a secret");
  });

  test("reaches over the cut at the beginning of a tail", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 30 }), { maxLength: 10 }), fc.nat(12), (texts, at) => {
        const redactor = new Redactor();
        redactor.learn("NAME", "Zz!Secret#123");
        const tail = new StderrTail(40, redactor);
        const [first, second] = ["Zz!Secret#123".slice(0, at), "Zz!Secret#123".slice(at)];
        for (const text of [first, second, ...texts]) tail.push(text);
        expect(tail.read().length).toBeLessThanOrEqual(40);
        // No end of it either: the tail begins after it or with what replaced it.
        expect(tail.read()).not.toContain("ret#123");
      }),
    );
  });
});

describe("a host with secrets", () => {
  const SECRET = "sk-very/secret+value";
  const needy = (id: string, ...args: string[]) => ({ ...fixture(id, ...args), requires: ["FIXTURE_KEY"] });
  const secrets = (values: Record<string, string>) => JSON.stringify({ t: "secrets", values });

  test("offers an agent when the gateway has sent what it lacks, and not before", async () => {
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
    // The default agent has its spare now.
    await gateway.until(() => gateway.control.find(({ t }) => t === "agent"));
    const session = await gateway.open("s");
    session.tell("environment");
    const { environment } = await gateway.until(() => session.frames.find((frame) => frame.environment));
    expect(environment).toContain("FIXTURE_KEY");
  });

  test("gives them to nobody else", async () => {
    const { gateway } = await startHost({ agents: [needy("needy"), fixture("fixture")] });
    await gateway.until(() => gateway.controlSocket);
    gateway.controlSocket?.send(secrets({ FIXTURE_KEY: SECRET }));
    const session = await gateway.open("s");
    session.tell("environment");
    const { environment } = await gateway.until(() => session.frames.find((frame) => frame.environment));
    expect(environment).not.toContain("FIXTURE_KEY");
  });

  test("lets none of them out: not in frames, noise, command lines, exits, files that are read, or logs", async () => {
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

  test("starts its spares again when their secrets change", async () => {
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
