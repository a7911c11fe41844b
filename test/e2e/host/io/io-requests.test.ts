import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startHost } from "../harness.ts";

/** Makes the agent send requests, as raw lines, and returns the host's responses. */
async function ask(...lines: string[]): Promise<string[]> {
  const { gateway, root } = await startHost();
  writeFileSync(join(root, "file"), "text");
  writeFileSync(join(root, "zeros"), Buffer.alloc(4 * 1024 * 1024));
  const session = await gateway.open("s");
  session.tell("write", { chunks: [Buffer.from(`${lines.join("\n")}\n`).toString("base64")] });
  await gateway.until(() => session.events("answer").length === lines.length);
  expect(session.items.slice(3, 3 + lines.length)).toEqual(lines);
  return session.events<string>("answer");
}

test("responses are items that repeat the id as the agent wrote it", async () => {
  expect(
    await ask(
      '{"id":12345678901234567890,"method":"fs/read_text_file","params":{"sessionId":"x","path":"file"}}',
      '{"method":"fs/read_text_file","params":{"path":"none"},"id":"\\u0061"}',
      '{"id":1.0,"method":"fs/read_text_file","params":{"path":3}}',
    ),
  ).toEqual([
    '{"jsonrpc":"2.0","id":12345678901234567890,"result":{"content":"text"}}',
    '{"jsonrpc":"2.0","id":"\\u0061","error":{"code":-32002,"message":"none: no such file","data":{"path":"none"}}}',
    expect.stringMatching(/^{"jsonrpc":"2.0","id":1.0,"error":{"code":-32602,.*path/),
  ]);
});

test("a read sees the preceding write", async () => {
  const answers = await ask(
    '{"id":1,"method":"fs/write_text_file","params":{"path":"a/b","content":"new"}}',
    '{"id":2,"method":"fs/read_text_file","params":{"path":"a/b"}}',
  );
  expect(answers).toEqual([
    '{"jsonrpc":"2.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0","id":2,"result":{"content":"new"}}',
  ]);
});

test("a response that does not fit in a frame becomes an error", async () => {
  const [answer] = await ask('{"id":1,"method":"fs/read_text_file","params":{"path":"zeros"}}');
  expect(answer).toContain("too large");
});

test("an agent can send requests while it waits for a command", async () => {
  const { gateway } = await startHost();
  const session = await gateway.open("s");
  const write = (line: object) =>
    session.tell("write", { chunks: [Buffer.from(`${JSON.stringify(line)}\n`).toString("base64")] });
  const answer = (id: number) =>
    gateway.until(() => {
      const found = session.events<string>("answer").map((text) => JSON.parse(text));
      return found.find((response) => response.id === id)?.result;
    });
  write({ id: 1, method: "terminal/create", params: { command: "echo hi; sleep 60" } });
  const { terminalId } = await answer(1);
  write({ id: 2, method: "terminal/wait_for_exit", params: { terminalId } });
  write({ id: 3, method: "terminal/output", params: { terminalId } });
  expect(await answer(3)).toMatchObject({ truncated: false });
  write({ id: 4, method: "terminal/kill", params: { terminalId } });
  expect(await answer(2)).toEqual({ exitCode: null, signal: "SIGTERM" });
  write({ id: 5, method: "terminal/release", params: { terminalId } });
  expect(await answer(5)).toEqual({});
});

describe("the output of a terminal", () => {
  /** Runs a command to its end, and returns the reports of its terminal. */
  async function run(command: string, takesOutput = true): Promise<{ output: string; reports: string[] }> {
    const { gateway } = await startHost();
    gateway.session("s").takesOutput = takesOutput;
    const session = await gateway.open("s");
    const write = (line: object) =>
      session.tell("write", { chunks: [Buffer.from(`${JSON.stringify(line)}\n`).toString("base64")] });
    const answered = (count: number) => gateway.until(() => session.events("answer").length === count);
    write({ id: 1, method: "terminal/create", params: { command } });
    await answered(1);
    const { terminalId } = JSON.parse(session.events<string>("answer")[0] as string).result;
    write({ id: 2, method: "terminal/wait_for_exit", params: { terminalId } });
    await answered(2);
    const pieces = session.events<{ terminalId: string; data: string }>("terminal_output");
    for (const piece of pieces) expect(piece.terminalId).toBe(terminalId);
    return {
      output: pieces.map(({ data }) => data).join(""),
      reports: session.items.filter((item) => item.startsWith('["')).map((item) => item.split('"')[1] ?? ""),
    };
  }

  test("is reported to the session, and its end before the agent learns of it", async () => {
    const { output, reports } = await run("echo one; echo two >&2; exit 3");
    expect(output.split("\n").sort()).toEqual(["", "one", "two"]);
    expect(reports.slice(-2)).toEqual(["terminal_exit", "answer"]);
  });

  test("is kept from a gateway that does not take it", async () => {
    const { reports } = await run("echo one", false);
    expect(reports).toEqual(["started", "sent", "answer", "answer"]);
  });
});
