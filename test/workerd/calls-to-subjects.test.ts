import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, expect, test, vi } from "vitest";
import { SubjectState } from "../../src/tenant/subject/subject-state.ts";
import { TenantState } from "../../src/tenant/tenant-state.ts";
import { connectionStub, prompt, socketsOf, workspaceName } from "./fixtures.ts";
import { connect } from "./live-rights/fixtures.ts";
import { Host } from "./peers/host.ts";
import { Resumable } from "./peers/resumable-client.ts";
import { mint } from "./tokens.ts";

/** How often the objects of tenants and subjects are called: these calls are what a crowd of clients has in common. */

afterEach(() => {
  vi.restoreAllMocks();
});

type Methods = Record<string, (...input: unknown[]) => unknown>;

/** The workspace is enrolled once, and acts are audited, in the background: no client waits for these. */
const NO_QUESTIONS = ["constructor", "alarm", "recordAct", "enrollWorkspace"];

/** Counts the calls to every object of a class, by method, but those about the token of a host. */
function countCalls(prototype: object): Record<string, number> {
  const calls: Record<string, number> = {};
  const methods = prototype as Methods;
  for (const name of Object.getOwnPropertyNames(prototype)) {
    const { value } = Object.getOwnPropertyDescriptor(prototype, name) ?? {};
    if (typeof value !== "function" || NO_QUESTIONS.includes(name)) continue;
    vi.spyOn(methods, name).mockImplementation(function (this: unknown, ...input) {
      if (!isOfHost(input[0])) calls[name] = (calls[name] ?? 0) + 1;
      return (value as Methods[string]).apply(this, input);
    });
  }
  return calls;
}

const isOfHost = (input: unknown) => (input as { isHost?: true } | undefined)?.isHost === true;

test("a whole session of a client with a known token calls its tenant never, and its subject three times", async () => {
  const [workspace, sub] = [workspaceName(), crypto.randomUUID()];
  const host = await Host.join(workspace);
  const bearer = await mint({ workspaces: [workspace], sub, jti: crypto.randomUUID() });
  // The first connection makes the token known.
  const first = await connect(bearer);
  first.client.socket.close(1000);
  await vi.waitFor(async () => expect(await socketsOf(sub)).toEqual([]));

  const [tenant, subject] = [countCalls(TenantState.prototype), countCalls(SubjectState.prototype)];
  const { client } = await connect(bearer);
  expect(subject).toEqual({ enter: 1 });
  const opening = client.newSession();
  const agent = await host.agent();
  await agent.openSession();
  const sessionId = await opening;
  const turn = client.call("session/prompt", prompt(sessionId));
  agent.answer(await agent.line(), { stopReason: "end_turn" });
  await client.until(turn);
  client.socket.close(1000);
  await vi.waitFor(() => expect(subject.leave).toBe(1));
  expect(tenant).toEqual({});
  expect(subject).toEqual({ enter: 1, takeSessionQuota: 1, leave: 1 });
});

test("clients that come back after a reset call nobody, and no object of theirs has lost or gained a row", async () => {
  const [workspace, sub] = [workspaceName(), crypto.randomUUID()];
  const bearer = await mint({ workspaces: [workspace], sub, jti: crypto.randomUUID() });
  await Host.join(workspace);
  const clients = await Promise.all(Array.from({ length: 20 }, () => Resumable.open(workspace, { bearer })));
  const before = await socketsOf(sub);
  expect(before).toHaveLength(20);

  const [tenant, subject] = [countCalls(TenantState.prototype), countCalls(SubjectState.prototype)];
  for (const { connection } of clients)
    await runInDurableObject(connectionStub(connection), (_, state) => state.abort("reset")).catch(() => {});
  await Promise.all(clients.map((client) => client.dial()));
  expect([tenant, subject]).toEqual([{}, {}]);
  expect(await socketsOf(sub)).toEqual(before);
  await Promise.all(clients.map(({ connection }) => evictDurableObject(connectionStub(connection))));
});

test("clients on plain sockets that come back call their subject once each, and their tenant never", async () => {
  const [workspace, sub] = [workspaceName(), crypto.randomUUID()];
  const bearer = await mint({ workspaces: [workspace], sub, jti: crypto.randomUUID() });
  await connect(bearer);
  const [tenant, subject] = [countCalls(TenantState.prototype), countCalls(SubjectState.prototype)];
  await Promise.all(Array.from({ length: 20 }, () => connect(bearer)));
  expect(tenant).toEqual({});
  expect(subject).toEqual({ enter: 20 });
});

test("a crowd with a token that nobody has met costs the tenant one call", async () => {
  const bearer = await mint({ workspaces: [workspaceName()], sub: crypto.randomUUID() });
  const tenant = countCalls(TenantState.prototype);
  await Promise.all(Array.from({ length: 20 }, () => connect(bearer)));
  expect(tenant).toEqual({ noteToken: 1 });
});
