import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { openSession, prompt } from "../fixtures.ts";
import { setLimits, setLimitsOf } from "../limits.ts";
import { Resumable } from "../peers/resumable-client.ts";
import { codeOf, given, HOUR, NOWHERE, startOfHour, TAKEN, type User, user } from "./fixtures.ts";

afterEach(() => {
  vi.useRealTimers();
});

describe("a resumable client", () => {
  const open = ({ bearer }: User) => Resumable.open("w", { bearer });
  const crash = (client: Resumable) =>
    runInDurableObject(client.object, (_, state) => state.abort()).catch(() => {});
  const cut = async (client: Resumable) => {
    client.peer.socket.close(4000, "cut");
    await client.peer.closed;
  };

  let nextId = 0;
  /** Sends this many prompts in one message; returns how many passed the quota. */
  const prompts = async (client: Resumable, count: number) => {
    const ids = Array.from({ length: count }, () => `p${nextId++}`);
    client.send(ids.map((id) => ({ id, method: "session/prompt", params: prompt(NOWHERE) })));
    const mine = new Set<unknown>(ids);
    const answers = () => client.read.filter(({ id }) => mine.has(id));
    await client.until(() => answers().length === count);
    return answers().filter((answer) => codeOf(answer) === TAKEN).length;
  };

  test("has its prompts counted over all its sockets", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const client = await open(someone);
    let taken = await prompts(client, 1);
    for (let round = 0; round < 4; round += 1) {
      await cut(client);
      await client.dial();
      taken += await prompts(client, 3);
      await evictDurableObject(client.object);
      taken += await prompts(client, 3);
      await client.dial();
      taken += await prompts(client, 3);
    }
    expect(await prompts(client, 1000)).toBe(1000 - taken);
  });

  test("has at most its quota after its object has crashed, never more", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const client = await open(someone);
    let taken = await prompts(client, 1);
    await cut(client);
    await client.dial();
    taken += await prompts(client, 5);
    await crash(client);
    await client.dial();
    taken += await prompts(client, 1000);
    expect(taken).toBeLessThanOrEqual(1000);
    expect(taken).toBeGreaterThan(980);
    expect(await given(someone, "prompts")).toBe(1000);
  });

  test("gives back the unused allowance when it says goodbye", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const client = await open(someone);
    expect(await prompts(client, 3)).toBe(3);
    await cut(client);
    await client.dial();
    await evictDurableObject(client.object);
    client.peer.socket.close(1000);
    await expect.poll(() => given(someone, "prompts")).toBe(3);
  });

  test("loses its socket for a notification over the quota, and sends it again in the next hour", async () => {
    startOfHour();
    const { agent, sessionId, workspace } = await openSession();
    await setLimitsOf("acme", { charsPerHour: 64_000, smallChars: 100 });
    const someone = await user({ tenant: "acme", sub: crypto.randomUUID(), workspaces: [workspace] });
    const client = new Resumable(workspace);
    client.bearer = someone.bearer;
    await client.dial();
    await client.request("initialize", { protocolVersion: 1 });
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    await client.request("no/such", { pad: "x".repeat(50_000) });
    const note = { method: "_note", params: { sessionId, pad: "y".repeat(20_000) } };
    const first = 4;
    await client.until(() => client.received === first - 1);
    client.send([note], first);
    expect(await client.peer.closed).toEqual({ code: 1008, reason: "quota exceeded" });
    await client.dial();
    expect(client.received).toBe(first - 1);
    client.send([note], first);
    expect((await client.peer.closed).code).toBe(1008);
    vi.setSystemTime(Date.now() + HOUR);
    await client.dial();
    client.send([note], first);
    expect(await agent.line()).toMatchObject({ method: "_note" });
    await client.until(() => client.received === first);
  });
});
