import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { BadNetwork } from "./bad-network.ts";
import { acpEdge, environmentOf, startAcpEdge, startOnTerminal } from "./command.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { upTo } from "./updates.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const run = (...args: string[]) => acpEdge(["run", ...args], environmentOf(gateway));

type Line = { type: string; sessionId?: string; stopReason?: string; update?: { sessionUpdate: string } };
const lines = (stdout: string) =>
  stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);

describe("a turn from the command line", () => {
  test("prints what the agent says to stdout, what it does to stderr, in order and whole", async () => {
    const { code, stdout, stderr } = await run("/tool read\n/stream 2000 100");
    expect(code).toBe(0);
    expect(stdout).toHaveLength(2000 * 100 + 1);
    expect(stdout).not.toContain("●");
    expect(stderr).toContain("✓");
    // Output that is no terminal has no colours and no escape sequences.
    expect(stdout + stderr).not.toContain("\u001b");
  });

  test("ignores unknown updates", async () => {
    const broken = '/raw {"sessionUpdate":"agent_message_chunk"}\n/raw {"sessionUpdate":"plan","entries":7}';
    const { code, stdout, stderr } = await run(`/unknown\n${broken}\n/stream 1 10`);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("000000");
  });

  test("takes the prompt from stdin", async () => {
    const { stdout } = await acpEdge(["run"], environmentOf(gateway), { input: "/echo from a pipe\n" });
    expect(stdout).toContain("from a pipe");
  });

  test("prints one event per line with --json, from the session to the stop reason", async () => {
    const { code, stdout } = await run("--json", "/echo hello");
    const events = lines(stdout);
    expect(code).toBe(0);
    expect(events[0]).toEqual({ type: "session", sessionId: expect.any(String) });
    expect(events.at(-1)).toEqual({ type: "end", sessionId: events[0]?.sessionId, stopReason: "end_turn" });
    expect(events.some(({ update }) => update?.sessionUpdate === "agent_message_chunk")).toBe(true);
  });

  test("continues a conversation with --session, and shows nothing of its past", async () => {
    const [first] = lines((await run("--json", "/echo earlier")).stdout);
    const { stdout } = await run("--session", first?.sessionId as string, "/history");
    expect(stdout).toBe("prompts: 2\n");
  });

  test.each([
    ["a refusal", "/refuse", 6, "refused"],
    ["a limit", "/max_tokens", 6, "limit"],
    ["an error", "/error -32603 broken", 6, "broken"],
    ["the end of the agent", "/crash", 6, "failed"],
  ])("reports %s by exit code and message", async (_, prompt, code, words) => {
    expect(await run(prompt)).toMatchObject({ code, stderr: expect.stringContaining(words) });
  });

  test("reports an unknown session or agent by its own exit code", async () => {
    expect((await run("--session", "00000000-0000-0000-0000-000000000000", "/help")).code).toBe(5);
    expect((await run("--session", "abcdef", "/help")).code).toBe(5);
    const { code, stderr } = await run("--agent", "nobody", "/help");
    expect({ code, stderr }).toEqual({ code: 5, stderr: expect.stringContaining('Unknown agent "nobody"') });
  });
});

describe("a permission request of a turn from the command line", () => {
  test.each([
    ["allow", "Permission selected: allow"],
    ["deny", "Permission selected: reject"],
  ])("is answered once, not always, with --permissions %s", async (how, words) => {
    expect(await run("--permissions", how, "/permission")).toMatchObject({ code: 0, stdout: `${words}\n` });
  });

  test("waits for another client without a terminal", async () => {
    const running = startAcpEdge(["run", "/permission"], environmentOf(gateway));
    running.child.stdin?.end();
    await running.prints("waiting for permission");
    await running.prints("permissions show|allow|deny ");
    const session = /allow\|deny (\S+)/.exec(running.stderr)?.[1] as string;
    await eventually(async () => {
      const { code } = await acpEdge(["permissions", "deny", session], environmentOf(gateway));
      return code === 0;
    });
    expect(await running.ended).toMatchObject({ code: 0, stdout: "Permission selected: reject\n" });
  });

  test("is asked on the terminal", async () => {
    const running = startOnTerminal(["run", "/permission Paint it black"], environmentOf(gateway));
    await running.prints("Paint it black");
    await running.prints("Always reject");
    // The first answer that is marked is the refusal, which stands between the two others.
    running.type("\u001b[A\r");
    await running.prints("Permission selected: allow-always");
    expect((await running.ended).code).toBe(0);
  });

  test("is refused by Enter alone", async () => {
    const running = startOnTerminal(["run", "/permission Paint it black"], environmentOf(gateway));
    await running.prints("Always reject");
    running.type("\r");
    await running.prints("Permission selected: reject");
    expect((await running.ended).code).toBe(0);
  });

  test("shows the whole of what is asked for, with invisible characters marked", async () => {
    const title = `echo ${"harmless ".repeat(30)}\u202e; rm -rf /`;
    const running = startOnTerminal(["run", `/permission ${title}`], environmentOf(gateway));
    await running.prints("Always reject");
    running.type("\r");
    await running.ended;
    const shown = running.stdout.replace(/\s+/g, " ");
    expect(shown).toContain(`echo ${"harmless ".repeat(30)}⟨U+202E⟩; rm -rf /`);
    expect(shown).toContain(`"path": "${gateway.root}`);
    expect(running.stdout).not.toContain("\u202e");
  });

  test("is withdrawn when another client answers", async () => {
    const running = startOnTerminal(["run", "/permission"], environmentOf(gateway));
    await running.prints("Always reject");
    let id = "";
    await eventually(async () => {
      const { permissions } = (await (await gateway.api("/api/permissions")).json()) as {
        permissions: { id: string }[];
      };
      id = permissions[0]?.id ?? "";
      return id !== "";
    });
    expect((await acpEdge(["permissions", "allow", id], environmentOf(gateway))).code).toBe(0);
    await running.prints("Permission selected: allow");
    expect((await running.ended).code).toBe(0);
  });

  test("cancels the turn on Ctrl-C", async () => {
    const running = startOnTerminal(["run", "/permission"], environmentOf(gateway));
    await running.prints("Always reject");
    running.type("\u0003");
    expect((await running.ended).code).toBe(130);
    expect(running.stdout).toContain("cancelled");
  });
});

describe("Ctrl-C", () => {
  test("cancels the turn", async () => {
    const running = startOnTerminal(["run", "/wait"], environmentOf(gateway));
    await running.prints("Waiting to be cancelled.");
    running.type("\u0003");
    await running.prints("cancelled");
    expect((await running.ended).code).toBe(130);
  });

  test("pressed twice leaves an agent that ignores the cancel", async () => {
    const running = startAcpEdge(["run", "/hang"], environmentOf(gateway));
    running.child.stdin?.end();
    await running.prints("Hanging.");
    running.child.kill("SIGINT");
    await running.prints("cancelling");
    running.child.kill("SIGINT");
    expect((await running.ended).code).toBe(130);
  });
});

test("an agent's text sets no terminal title and moves no cursor", async () => {
  const evil = JSON.stringify({
    sessionUpdate: "agent_message_chunk",
    content: { type: "text", text: "a\u001b]0;owned\u0007b" },
  });
  const running = startOnTerminal(["run", "--quiet", `/raw ${evil}`], environmentOf(gateway));
  await running.ended;
  expect(running.stdout).toContain("a]0;ownedb");
});

test.each([
  ["colours are for terminals", {}, true],
  ["NO_COLOR is respected", { NO_COLOR: "1" }, false],
])("%s", async (_, env, coloured) => {
  const running = startOnTerminal(["run", "/tool read"], { ...environmentOf(gateway), ...env });
  expect((await running.ended).code).toBe(0);
  expect(running.stdout).toContain("✓");
  expect(running.stdout.includes("\u001b[")).toBe(coloured);
});

describe("a turn on a bad network", () => {
  /** Like `environmentOf`, through a network that lasts until the test ends. */
  async function onTheRoad() {
    const way = await BadNetwork.to(gateway.url);
    onTestFinished(() => way[Symbol.asyncDispose]());
    return { way, env: environmentOf({ url: way.url(gateway.url), token: gateway.token }) };
  }

  test("continues after each cut, and no frame is missing or repeated", async () => {
    const { way, env } = await onTheRoad();
    let cuts = 0;
    const cut = () => {
      cuts += 1;
      way.cut();
      way.after(40_000, cut);
    };
    way.after(10_000, cut);
    const { code, stdout, stderr } = await acpEdge(["run", "/stream 1000 100"], env);
    expect(code).toBe(0);
    expect(cuts).toBeGreaterThan(5);
    expect(stderr).toContain("reconnected");
    expect([...stdout.matchAll(/(\d{6}) /g)].map(([, number]) => Number(number))).toEqual(upTo(1000));
  });

  test("reports that it goes on when it cannot be followed any more", async () => {
    const { way, env } = await onTheRoad();
    await using other = await startGateway();
    const running = startAcpEdge(["run", "/slow 60"], env);
    running.child.stdin?.end();
    await running.prints("1");
    // The gateway it reconnects to does not accept its token.
    way.leadTo(other.url);
    way.cut();
    const { code, stderr } = await running.ended;
    expect(code).toBe(3);
    expect(stderr).toMatch(
      /valid token is required; the turn continues: acp-edge sessions watch [0-9a-f-]{36}/,
    );
  });
});
