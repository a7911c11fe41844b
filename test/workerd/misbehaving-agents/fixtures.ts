import { test } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { events, get, type Opened, prompt, workspaceName } from "../fixtures.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { token } from "../tokens.ts";

/**
 * Cases that fail today, each with the reason. A case that passes and is still here fails, so no entry outlives its
 * reason.
 */
const PENDING: Record<string, string> = {};

/**
 * A test of one way to misbehave, under the name of the agent in the ACP compatibility kit that does so
 * (https://github.com/EugeneTheDev/acp-tck, `tests/fixtures/agents`). Those that misbehave as processes, on stderr, with
 * bytes that are not UTF-8 or with another version of the protocol, are the host's business: `test/unit/host/agent/` and
 * `test/e2e/faults.test.ts` have them.
 */
export function misbehaves(name: string, consequence: string, run: () => Promise<void>): void {
  const pending = PENDING[name];
  test(`${name}: ${consequence}`, async (context) => {
    try {
      await run();
    } catch (error) {
      if (pending === undefined) throw error;
      console.log(`PENDING: ${name}: ${pending}\n${error}`);
      return context.skip(pending);
    }
    if (pending !== undefined) throw new Error(`${name} passes: take it out of the pending cases`);
  });
}

/** A session whose agent has the given capabilities, with helpers for its turns. */
export async function opened(capabilities: object = {}): Promise<Misbehaving> {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  host.capabilities = capabilities;
  const client = await bareClient(workspace);
  const opening = client.newSession();
  const agent = await host.agent();
  await agent.openSession();
  return new Misbehaving({ workspace, host, client, agent, sessionId: await opening });
}

/** A client that offers nothing. */
export async function bareClient(workspace: string): Promise<Client> {
  const client = await Client.raw(workspace);
  await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return client;
}

export type Violation = { violation?: string; detailCode?: string };

export class Misbehaving {
  readonly all: Opened;

  constructor(all: Opened) {
    this.all = all;
  }

  /** A prompt that has reached the agent: the id of the client's request and the agent's. */
  async prompted(): Promise<{ id: number; request: { id?: number } }> {
    const { client, agent, sessionId } = this.all;
    const id = client.call("session/prompt", prompt(sessionId));
    return { id, request: await agent.line() };
  }

  /** Everything that the client has got up to now, in order. A request to the agent and back is the end of it. */
  async received(): Promise<Json[]> {
    const { client, agent, sessionId } = this.all;
    const id = client.call("_suite/fence", { sessionId });
    agent.answer(await agent.line(), {});
    return (await client.until(id)).before;
  }

  /** A turn without a fault: a misbehaving agent does not spoil its session. */
  async worksOn(): Promise<void> {
    const { client, agent } = this.all;
    const { id, request } = await this.prompted();
    agent.answer(request, { stopReason: "end_turn" });
    const { response } = await client.until(id);
    if ((response.result as Json | undefined)?.stopReason !== "end_turn")
      throw new Error(`The next turn failed: ${JSON.stringify(response)}`);
  }

  async log(): Promise<Json[]> {
    const { agent, workspace, sessionId } = this.all;
    await agent.durable();
    return events(workspace, sessionId);
  }

  /** The violations that the log notes. */
  async violations(): Promise<string[]> {
    return (await this.log()).flatMap(({ kind, payload }) => {
      const { violation } = payload as Violation;
      return kind === "error" && violation !== undefined ? [violation] : [];
    });
  }

  async view(): Promise<Json> {
    const { workspace, sessionId } = this.all;
    return (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json<Json>();
  }

  notify(method: string, params: object): void {
    this.all.agent.items(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  update(update: Json, sessionId = "agent-session"): void {
    this.notify("session/update", { sessionId, update });
  }

  /** The process ends, and the next prompt starts another. */
  async restarts(): Promise<{ id: number }> {
    const { client, agent, host, sessionId } = this.all;
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await agent.durable();
    const id = client.call("session/prompt", prompt(sessionId));
    this.all.agent = await host.agent();
    return { id };
  }
}
