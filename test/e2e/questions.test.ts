/** Questions of agents, through a whole gateway: with nobody attached, and on the command line. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client, type LogEvent, loggedUpdates, readLog } from "./client.ts";
import { acpEdge, document, environmentOf, startAcpEdge, startOnTerminal } from "./command.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { textOf } from "./updates.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const run = (...args: string[]) => acpEdge(args, environmentOf(gateway));
const json = async <T>(...args: string[]) => document<T>(await run(...args, "--json"));

type Question = { id: string; sessionId: string; mode: string; message: string };

/** The question that waits in a session, as the list shows it. */
async function waiting(session: string): Promise<Question> {
  let found: Question | undefined;
  await eventually(async () => {
    const response = await gateway.api("/api/questions").catch(() => undefined);
    if (response?.status !== 200) return false;
    const { questions } = (await response.json()) as { questions: Question[] };
    found = questions.find(({ sessionId }) => sessionId === session);
    return found !== undefined;
  });
  return found as Question;
}

/** A session whose turn waits for a question, with nobody attached. */
async function asking(command = "/elicit"): Promise<{ session: string; id: string }> {
  const client = await Client.connect(gateway);
  const session = await client.newSession();
  client.prompt(session, command).catch(() => {});
  const { id } = await waiting(session);
  await client.close();
  return { session, id };
}

/** What the agent has said once its turn is over. */
async function said(session: string): Promise<string> {
  const isOver = ({ kind }: LogEvent) => kind === "turn.completed";
  await eventually(async () => (await readLog(gateway, session)).some(isOver));
  return textOf(loggedUpdates(await readLog(gateway, session)));
}

test("[I7] a question waits with nobody attached, survives kill -9 of workerd and is answered over REST", async () => {
  const { session, id } = await asking();
  gateway.killWorkerd();
  expect(await waiting(session)).toMatchObject({ id, mode: "form" });
  const answer = (content: object) =>
    gateway.api(`/api/questions/${id}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ action: "accept", content }),
    });
  expect((await answer({ name: "Ada", size: 19 })).status).toBe(400);
  const content = { name: "Ada", color: "green", size: 38, pets: ["cat"], subscribe: true };
  expect((await answer(content)).status).toBe(200);
  expect(await said(session)).toBe(
    `Elicitation answered: ${JSON.stringify({ action: "accept", content })}\n`,
  );
});

test("questions ls, show, answer and link", async () => {
  const first = await asking();
  expect((await run("questions", "ls")).stdout).toContain(first.id);
  const shown = (await run("questions", "show", first.id)).stdout;
  expect(shown).toContain("Please tell me about yourself.");
  expect(shown).toContain("red | green | blue");
  expect((await run("sessions", "show", first.session)).stdout).toContain(`question ${first.id}`);
  expect((await run("questions", "answer", first.id)).code).toBe(2);
  const wrong = await run("questions", "answer", first.id, "--set", "size=big");
  expect(wrong.code).not.toBe(0);
  expect(wrong.stderr).toContain('"name" is required');
  const values = ["--set", "name=Ada", "--set", "pets=cat", "--set", "pets=dog", "--set", "subscribe=yes"];
  const answered = await json("questions", "answer", first.session, ...values);
  expect(answered).toEqual({ id: first.id, action: "accept" });
  expect(await said(first.session)).toContain('{"name":"Ada","pets":["cat","dog"],"subscribe":true}');
  expect((await run("questions", "answer", first.id, "--decline")).code).toBe(5);

  const second = await asking("/elicit url");
  expect((await run("questions", "show", second.id)).stdout).toContain("https://example.com/demo");
  const { url } = await json<{ url: string }>("questions", "link", second.id, "--expires", "60s");
  expect(await (await fetch(url)).text()).toContain("https://example.com/demo");
  const body = new URLSearchParams({ action: "decline" });
  expect((await fetch(url, { method: "POST", body })).status).toBe(200);
  expect(await said(second.session)).toContain('{"action":"decline"}');
});

test("a question of a turn from the command line waits for somebody else, or is declined, without a terminal", async () => {
  const declined = await run("run", "--permissions", "allow", "/elicit");
  expect(declined).toMatchObject({ code: 0, stdout: 'Elicitation answered: {"action":"decline"}\n' });
  const running = startAcpEdge(["run", "/elicit"], environmentOf(gateway));
  running.child.stdin?.end();
  await running.prints("questions show|answer ");
  const session = /show\|answer (\S+)/.exec(running.stderr)?.[1] as string;
  await waiting(session);
  expect((await run("questions", "answer", session, "--set", "name=Ada")).code).toBe(0);
  expect(await running.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('"name":"Ada"') });
});

test("a question of a turn from the command line is asked on the terminal, field by field", async () => {
  const running = startOnTerminal(["run", "/elicit"], environmentOf(gateway));
  await running.prints("Fill in the form");
  running.type("\r");
  await running.prints("Your name *");
  running.type("Ada\r");
  await running.prints("(none)");
  running.type("\u001b[B\r");
  await running.prints("◆\u001b[39m  Shoe size");
  running.type("38\r");
  await running.prints("Dogs");
  running.type(" \r");
  await running.prints("◆\u001b[39m  Subscribe");
  running.type("y");
  await running.prints('{"name":"Ada","color":"red","size":38,"pets":["cat"],"subscribe":true}');
  expect((await running.ended).code).toBe(0);
});
