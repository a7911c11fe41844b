import { expect, test } from "vitest";
import { MessageHistory } from "../../../../../src/session/transfer/worker/message-history.ts";

type Json = Record<string, unknown>;

function historyOf(...events: Json[]) {
  const history = new MessageHistory("s");
  for (const [i, event] of events.entries()) history.push({ seq: i + 1, ...event });
  return history.messages;
}

const frame = (direction: string, message: Json, more: Json = {}) => ({
  kind: "acp.frame",
  payload: { direction, message, ...more },
});
const prompt = (text: string, more: Json = {}) =>
  frame("out", { id: 1, method: "session/prompt", params: { prompt: [{ type: "text", text }] } }, more);
const update = (sessionUpdate: string, more: Json, route: Json = {}) =>
  frame("in", { method: "session/update", params: { update: { sessionUpdate, ...more } } }, route);
const chunk = (text: string, kind = "agent_message_chunk", route: Json = {}) =>
  update(kind, { content: { type: "text", text } }, route);
const user = (content: string) => ({ type: "text", content, metadata: { role: "user" } });

test("a message is a list of blocks; chunks of one text are one block", () => {
  expect(
    historyOf(
      prompt("hello"),
      chunk("hm", "agent_thought_chunk"),
      chunk("Hi "),
      chunk("there"),
      update("tool_call", { toolCallId: "t", title: "Read" }),
      chunk("done"),
      update("available_commands_update", { availableCommands: [] }),
      prompt("more"),
      prompt("and more"),
    ),
  ).toMatchObject([
    [user("hello")],
    [
      { type: "thought", content: "hm" },
      { type: "text", content: "Hi there" },
      { type: "text", content: "Read" },
      { type: "text", content: "done" },
    ],
    [user("more")],
    [user("and more")],
  ]);
});

test("a prompt that waited belongs where its turn begins; refused, dropped and repeated messages belong nowhere", () => {
  expect(
    historyOf(
      prompt("first"),
      prompt("second", { stop: "held" }),
      prompt("third", { stop: "held" }),
      prompt("refused", { stop: "gateway" }),
      chunk("one"),
      { kind: "queue.dequeued", payload: { seq: 3, turnId: "t", dropped: "cancelled" } },
      { kind: "queue.dequeued", payload: { seq: 2, turnId: "t" } },
      chunk("one", "agent_message_chunk", { stop: "replay" }),
      chunk("two"),
    ).map(([block]) => block?.content),
  ).toEqual(["first", "one", "second", "two"]);
});
