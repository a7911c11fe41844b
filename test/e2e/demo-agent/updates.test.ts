import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { unknownLines } from "../../../src/demo-agent/commands/wire.ts";
import { DemoSession, isSessionNotification } from "./harness.ts";

let session: DemoSession;
beforeAll(async () => {
  session = await DemoSession.start();
});
afterAll(() => session.agent.stop());

const kinds = (updates: { sessionUpdate: string }[]) => updates.map(({ sessionUpdate }) => sessionUpdate);

describe("the demo agent's text", () => {
  test("any text is echoed in a few chunks that mention /help", async () => {
    const { updates, text, stopReason } = await session.prompt("hello there");
    expect(stopReason).toBe("end_turn");
    expect(updates.length).toBeGreaterThan(2);
    expect(text).toContain("You said: hello there");
    expect(text).toContain("/help");
  });

  test("other content blocks are named", async () => {
    const { text } = await session.prompt([
      { type: "text", text: "look" },
      { type: "resource_link", name: "x", uri: "file:///x" },
    ]);
    expect(text).toContain("look (with resource_link)");
  });

  test("/help and the available commands come from one table", async () => {
    const { text } = await session.prompt("/help");
    const { updates } = await session.prompt("/commands");
    const [update] = updates;
    if (update?.sessionUpdate !== "available_commands_update") throw new Error("no commands");
    expect(update.availableCommands.length).toBeGreaterThan(35);
    for (const { name, input } of update.availableCommands) {
      expect(text).toContain(input ? `\`/${name} ${input.hint}\`` : `\`/${name}\``);
    }
  });

  test("an unknown command is not an error", async () => {
    expect((await session.prompt("/nonsense")).text).toContain("no command /nonsense");
  });

  test("several lines run one after another in one turn, until one of them ends it", async () => {
    const turn = await session.prompt("/think first\n/plan\n\nplain\n/refuse\n/think never");
    expect(turn.stopReason).toBe("refusal");
    expect(kinds(turn.updates).slice(0, 5)).toEqual(["agent_thought_chunk", "plan", "plan", "plan", "plan"]);
    expect(turn.text).toContain("You said: plain");
    expect(turn.lines.join()).not.toContain("never");
  });

  test.each([
    [20_000, 120],
    [300, 16 * 1024],
    [3, 7],
  ])("/stream %d %d: nothing lost, doubled, reordered or of another size", async (count, size) => {
    const { updates, stopReason } = await session.prompt(`/stream ${count} ${size}`);
    expect(stopReason).toBe("end_turn");
    expect(updates.length).toBe(count);
    const wrong = updates.findIndex((update, index) => {
      const text =
        update.sessionUpdate === "agent_message_chunk" &&
        update.content.type === "text" &&
        update.content.text;
      return !text || text.length !== size || !text.startsWith(`${String(index).padStart(6, "0")} `);
    });
    expect(wrong).toBe(-1);
  });

  test("/stream and /slow spread their chunks over time", async () => {
    expect((await session.prompt("/stream 3 20 1")).updates.length).toBe(3);
    expect((await session.prompt("/slow 0.2")).text).toBe("tick 1 of 2\ntick 2 of 2\n");
  });

  test("/plan completes its entries one by one", async () => {
    const { updates } = await session.prompt("/plan");
    const states = updates.map(
      (update) => update.sessionUpdate === "plan" && update.entries.map((e) => e.status).join(),
    );
    expect(states.at(0)).toBe("in_progress,pending,pending");
    expect(states.at(-1)).toBe("completed,completed,completed");
  });
});

describe("the demo agent's tool calls", () => {
  test("/tool goes pending, in_progress, completed in sparse updates", async () => {
    const { updates } = await session.prompt("/tool search");
    expect(updates[0]).toMatchObject({ sessionUpdate: "tool_call", kind: "search", status: "pending" });
    expect(updates[0]).toHaveProperty("locations");
    expect(updates[1]).toEqual({
      sessionUpdate: "tool_call_update",
      toolCallId: expect.any(String),
      status: "in_progress",
    });
    expect(updates[2]).not.toHaveProperty("status");
    expect(updates[3]).toMatchObject({ status: "completed", rawOutput: { ok: true } });
  });

  test("/fail fails its tool call", async () => {
    expect((await session.prompt("/fail")).updates.at(-1)).toMatchObject({ status: "failed" });
  });

  test("tool call ids are unique in a session", async () => {
    const { updates } = await session.prompt("/tool\n/tool\n/fail");
    const more = await session.prompt("/tool");
    const ids = [...updates, ...more.updates].flatMap((u) =>
      u.sessionUpdate === "tool_call" ? [u.toolCallId] : [],
    );
    expect(new Set(ids).size).toBe(4);
  });
});

describe("the demo agent's content blocks", () => {
  test.each([
    ["100kb", 100 * 1024],
    ["3mb", 3 * 1024 * 1024],
  ])("/image %s is a PNG of about that size", async (size, length) => {
    const [update] = (await session.prompt(`/image ${size}`)).updates;
    if (update?.sessionUpdate !== "agent_message_chunk" || update.content.type !== "image")
      throw new Error("no image");
    expect(update.content.data.length / length).toBeCloseTo(1, 1);
    expect(Buffer.from(update.content.data, "base64").toString("latin1")).toMatch(/^\x89PNG/);
  });

  test("/audio, /resource and /link send their content", async () => {
    const { updates } = await session.prompt("/audio\n/resource\n/link");
    const contents = updates.map((u) =>
      u.sessionUpdate === "agent_message_chunk" ? u.content.type : u.sessionUpdate,
    );
    expect(contents).toEqual(["audio", "resource", "resource", "resource_link"]);
  });
});

describe("the demo agent's session state", () => {
  test("/mode and session/set_mode change the mode", async () => {
    expect((await session.prompt("/mode code")).updates).toEqual([
      { sessionUpdate: "current_mode_update", currentModeId: "code" },
    ]);
    const from = session.agent.lines.length;
    await session.peer.request("session/set_mode", { sessionId: session.id, modeId: "architect" });
    expect(session.agent.lines[from]).toContain('"currentModeId":"architect"');
    await expect(
      session.peer.request("session/set_mode", { sessionId: session.id, modeId: "nope" }),
    ).rejects.toMatchObject({ code: -32602 });
    expect((await session.prompt("/mode nope")).text).toContain("no mode nope");
  });

  test("/config and session/set_config_option change an option", async () => {
    const [update] = (await session.prompt("/config model demo-large")).updates;
    if (update?.sessionUpdate !== "config_option_update") throw new Error("no options");
    expect(update.configOptions).toContainEqual(
      expect.objectContaining({ id: "model", currentValue: "demo-large" }),
    );

    const { configOptions } = await session.peer.request("session/set_config_option", {
      sessionId: session.id,
      configId: "verbose",
      type: "boolean",
      value: true,
    });
    expect(configOptions).toContainEqual(expect.objectContaining({ id: "verbose", currentValue: true }));
    expect((await session.prompt("/config model nope")).text).toContain("no config option");
  });

  test("/usage, /title, /notice and /compact send their updates", async () => {
    const { updates } = await session.prompt("/usage\n/title A name\n/notice Look out\n/compact");
    expect(kinds(updates)).toEqual([
      "usage_update",
      "session_info_update",
      "notice",
      "compaction_update",
      "compaction_summary_chunk",
      "compaction_summary_chunk",
      "compaction_summary_chunk",
      "compaction_update",
    ]);
    expect(updates[1]).toMatchObject({ title: "A name" });
    expect(updates[2]).toMatchObject({ title: "Look out" });
  });

  test("/late sends its update after the response", async () => {
    const { updates } = await session.prompt("/late Afterwards");
    expect(updates).toEqual([]);
    await session.said("Afterwards");
  });

  test("/history counts prompts", async () => {
    const count = async () => Number(/prompts: (\d+)/.exec((await session.prompt("/history")).text)?.[1]);
    expect(await count()).toBe((await count()) - 1);
  });
});

describe("the demo agent's reports of its situation", () => {
  test("/env never shows the value", async () => {
    expect((await session.prompt("/env PATH")).text).toBe("PATH is set\n");
    expect((await session.prompt("/env NO_SUCH_VARIABLE")).text).toBe("NO_SUCH_VARIABLE is not set\n");
  });

  test("/cwd, /pid, /client, /mcp and /echo report the situation", async () => {
    expect((await session.prompt("/cwd")).text).toBe(`session: /tmp\nprocess: ${process.cwd()}\n`);
    expect((await session.prompt("/pid")).text).toBe(`pid ${session.agent.child.pid}\n`);
    expect((await session.prompt("/client")).text).toContain('"terminal":true');
    expect((await session.prompt("/mcp")).text).toBe("mcp servers: none\n");
    expect(JSON.parse((await session.prompt("/echo")).text)).toEqual([{ type: "text", text: "/echo" }]);
  });
});

describe("the demo agent's bytes on stdout and stderr", () => {
  test("/unknown is written verbatim", async () => {
    const { lines } = await session.prompt("/unknown");
    const expected = unknownLines({
      id: session.id,
      line: (update) =>
        `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"${session.id}","update":${update}}}\n`,
    });
    expect(lines.slice(0, 4).map((line) => `${line}\n`)).toEqual(expected);
    expect(lines[0]).toContain('"big":12345678901234567890,"one":1.0,"nothing":null');
    expect(lines[3]).toContain('"method":"_vendor/demo_event"');
  });

  test("/raw sends the given JSON text", async () => {
    const { lines } = await session.prompt('/raw {"sessionUpdate":"x","n":1.50,  "a":[]}');
    expect(lines[0]).toContain('"update":{"sessionUpdate":"x","n":1.50,  "a":[]}}');
  });

  test("/split arrives whole", async () => {
    expect((await session.prompt("/split")).text).toBe("split: é 漢 🙂 done");
  });

  test("messages of other sessions do not interrupt a split line", async () => {
    const splitting = session.prompt("/split");
    const answers = Array.from({ length: 20 }, (_, n) => session.peer.request("_demo/echo", { n }));
    expect((await splitting).text).toBe("split: é 漢 🙂 done");
    expect(await Promise.all(answers)).toContainEqual({ n: 19 });
  });

  test("/garbage and /flood do not disturb later turns", async () => {
    const garbage = await session.prompt("/garbage");
    expect(garbage.lines.slice(0, 2)).toEqual(["this line is not JSON", '{"jsonrpc":"2.0","method":']);
    expect(garbage.lines[3]).toBe("");
    expect(session.agent.bytes.includes(Buffer.from([0xff, 0xfe, 0xc3, 0x28, 0x0a]))).toBe(true);
    expect(garbage.text).toBe("Wrote garbage to stdout.\n");

    const flood = await session.prompt("/flood 2500");
    expect(flood.lines.filter((line) => line.startsWith("noise ")).length).toBe(2500);
    expect(flood.lines).toContain("noise 2499");
    expect(flood.stopReason).toBe("end_turn");
  });

  test("/stderr writes a line to stderr", async () => {
    await session.prompt("/stderr a line for the log");
    await session.agent.untilStderr("a line for the log\n");
  });

  test("every update of a known kind is valid against the schema of the protocol", () => {
    const notifications = session.agent.messages.filter(({ method }) => method === "session/update");
    const strange = (params: unknown) => /"sessionUpdate":"(demo_unknown|x)"/.test(JSON.stringify(params));
    const invalid = notifications.filter(({ params }) => !isSessionNotification(params) && !strange(params));
    expect(invalid).toEqual([]);
  });
});
