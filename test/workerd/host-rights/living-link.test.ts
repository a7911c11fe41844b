import { afterEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { events, type Opened, openSession, prompt } from "../fixtures.ts";
import { Peer } from "../peers/peer.ts";
import { type Claims, hostTokenId, mint } from "../tokens.ts";

/**
 * Hosts of one workspace that say hello for a process which another socket serves. The host of `openSession` has a token
 * of the subject `someone`, without a name.
 */

const own = ({ workspace }: Opened): Claims => ({ sub: "someone", jti: hostTokenId(workspace) });

/** Says hello for the running process. The answer is the welcome, or the code with which the socket is closed. */
async function greet(
  { workspace, sessionId, agent }: Opened,
  claims: Claims,
  more: object = {},
): Promise<{ link: Peer; answer: string | number }> {
  const bearer = await mint({ workspaces: [workspace], scopes: ["host"], ...claims });
  const link = await Peer.connect(`/host/sessions/${sessionId}`, bearer);
  const { run, processRequest } = agent;
  const about = { agent: "scripted", host: "h1", root: "/workspace", delivered: 0, draining: false };
  link.send(JSON.stringify({ t: "hello", ...about, run, processRequest, ...more }));
  const welcome = link.takeJson().then(({ t }) => t as string);
  return { link, answer: await Promise.race([welcome, link.closed.then(({ code }) => code)]) };
}

const kinds = async ({ workspace, sessionId }: Opened) =>
  (await events(workspace, sessionId)).map(({ kind }) => kind);

/** A turn of the agent that has served the session from the beginning. */
async function converse({ client, agent, sessionId }: Opened): Promise<void> {
  const turn = client.request("session/prompt", prompt(sessionId));
  const { id } = await agent.line();
  agent.items(JSON.stringify({ jsonrpc: "2.0", id, result: { stopReason: "end_turn" } }));
  expect((await turn).response).toMatchObject({ result: { stopReason: "end_turn" } });
}

afterEach(() => {
  vi.useRealTimers();
});

describe("[I13] the living link of a process", () => {
  test.each<[string, Claims]>([
    ["another subject, without a name", { sub: "rogue" }],
    ["the same subject, without a name", { sub: "someone", jti: "another" }],
  ])("stays when a token of %s says the host's name", async (_, claims) => {
    const opened = await openSession();
    const before = await kinds(opened);
    const { answer } = await greet(opened, claims);
    // The code of a taken name: a host with this code dials again and keeps its agent.
    expect(answer).toBe(4410);
    expect(await kinds(opened)).toEqual(before);
    await converse(opened);
  });

  test("stays against every other token once its own token names the host", async () => {
    const opened = await openSession();
    const named = await greet(opened, { sub: "someone", jti: "1", host: "h1" });
    expect(named.answer).toBe("welcome");
    expect(await opened.agent.link.closed).toMatchObject({ code: 4408, reason: "replaced" });
    for (const claims of [own(opened), { sub: "rogue" }, { sub: "rogue", host: "h1" }])
      expect((await greet(opened, claims)).answer).toBe(4410);
    // The host has renewed its token and lost its socket, of which the session does not know yet.
    expect((await greet(opened, { sub: "someone", jti: "2", host: "h1" })).answer).toBe("welcome");
    expect(await named.link.closed).toMatchObject({ code: 4408, reason: "replaced" });
  });

  test("[I6] makes room at once for another socket with its own token", async () => {
    const opened = await openSession();
    expect((await greet(opened, own(opened))).answer).toBe("welcome");
    expect(await opened.agent.link.closed).toMatchObject({ code: 4408, reason: "replaced" });
  });

  test("[I11] makes room for another token when it is closed, or silent", async () => {
    const opened = await openSession();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    vi.setSystemTime(Date.now() + DEFAULT_LIMITS.hostSilentMs + 1);
    const renewed = await greet(opened, { sub: "someone", jti: "2" });
    expect(renewed.answer).toBe("welcome");
    renewed.link.socket.close();
    await renewed.link.closed;
    await vi.waitFor(async () =>
      expect((await greet(opened, { sub: "someone", jti: "3" })).answer).toBe("welcome"),
    );
  });

  test("loses nothing by a hello that is refused", async () => {
    const opened = await openSession();
    const before = await kinds(opened);
    // The token is the host's own, so that only the hello itself is wrong.
    const { answer } = await greet(opened, own(opened), { io: "client" });
    expect(answer).toBe(4409);
    expect(await kinds(opened)).toEqual(before);
    await converse(opened);
  });
});
