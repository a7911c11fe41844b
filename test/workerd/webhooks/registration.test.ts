import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { Webhooks } from "../../../src/workspace/webhooks/webhooks.ts";
import { get, send, workspaceName, workspaceStub } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { adminOf, dueOf, make, receiver, receiveWebhooks } from "./fixtures.ts";

receiveWebhooks();

/** Sets the operator's variable until the end of the test. */
function allowTargets(targets: string): void {
  env.WEBHOOK_TARGETS = targets;
  onTestFinished(() => {
    delete env.WEBHOOK_TARGETS;
  });
}

describe("a webhook", () => {
  test("is made with a secret that is shown once and stored encrypted", async () => {
    const logs = [vi.spyOn(console, "log"), vi.spyOn(console, "warn"), vi.spyOn(console, "error")];
    const workspace = workspaceName();
    const made = await make(workspace);
    expect(made).toEqual({
      id: expect.stringMatching(/^wh_[0-9A-Z]{26}$/),
      url: expect.stringMatching(/^https:\/\/receiver\.test\/[0-9a-f-]{36}$/),
      events: ["permission.pending", "question.pending", "turn.ended", "agent.failed"],
      links: false,
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
      waiting: 0,
      lastDelivery: null,
      failingSince: null,
      dropped: 0,
      by: "someone",
      pausedReason: null,
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    });
    const { secret, ...info } = made;
    const { path, bearer, list, audit } = await adminOf(workspace);
    expect(await list()).toEqual([info]);
    const stored = await runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
      JSON.stringify(storage.sql.exec("SELECT * FROM webhook").toArray()),
    );
    expect(stored).toContain(made.id);
    const hidden = [secret, secret.slice("whsec_".length), "sesame"];
    expect(stored).not.toContain(hidden[1]);
    receiver.answer = () => Promise.reject(new Error(`no way to ${made.url}?key=sesame`));
    expect((await get(`${path}/${made.id}/test`, bearer, "POST")).status).toBe(202);
    await vi.waitUntil(async () => (await list())[0]?.failingSince !== null);
    const [entry] = (await audit("webhook.made")).filter((one) => one.workspace === workspace);
    expect(entry).toMatchObject({
      subject: "someone",
      detail: { webhook: made.id, to: "https://receiver.test" },
    });
    const shown = JSON.stringify([await list(), entry, logs.map(({ mock }) => mock.calls)]);
    for (const text of hidden) expect(shown).not.toContain(text);
  });

  test.each([
    [{ url: "http://receiver.test/" }],
    [{ url: "https://user:password@receiver.test/" }],
    [{ url: "https://user@receiver.test/" }],
    [{ url: "ftp://receiver.test/" }],
    [{ url: "receiver.test" }],
    [{ url: "not an address" }],
    [{ url: `https://receiver.test/${"x".repeat(DEFAULT_LIMITS.webhookUrlChars)}` }],
    [{ url: 7 }],
    [{}],
    [null],
    [{ url: "https://receiver.test/", events: [] }],
    [{ url: "https://receiver.test/", events: ["turn.started"] }],
    [{ url: "https://receiver.test/", links: "yes" }],
    [{ url: "https://receiver.test/", secret: "mine" }],
  ])("is refused as %j", async (order) => {
    const { path, bearer, list } = await adminOf(workspaceName());
    expect((await send("POST", path, bearer, order)).status).toBe(400);
    expect(await list()).toEqual([]);
  });

  test.each(["http://127.0.0.1:7000/hook", "http://localhost:7000/hook", "https://receiver.test"])(
    "may have the address %s where the operator allows loopback",
    async (url) => {
      allowTargets("loopback");
      const { path, bearer } = await adminOf(workspaceName());
      const order = { url, events: ["turn.ended", "turn.ended"], links: true };
      const made = await send("POST", path, bearer, order);
      expect(await made.json()).toMatchObject({ events: ["turn.ended"], links: true });
    },
  );

  test.each([
    "http://127.0.0.1:7000/hook",
    "https://localhost/hook",
    "https://2130706433/",
    "https://0177.0.0.1/",
    "https://[::1]/",
    "https://[::ffff:169.254.169.254]/latest/meta-data",
    "https://169.254.169.254./latest/meta-data",
    "https://metadata.google.internal./",
    "https://10.0.0.1/",
    "https://intranet/",
  ])("is refused at %s by default, with one and the same reason", async (url) => {
    const { path, bearer, list } = await adminOf(workspaceName());
    const refused = await send("POST", path, bearer, { url });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({
      error: { message: expect.stringContaining("WEBHOOK_TARGETS") },
    });
    expect(await list()).toEqual([]);
  });

  test("made before its address was forbidden is sent nothing and shows no status", async () => {
    allowTargets("loopback");
    const { path, bearer, list } = await adminOf(workspaceName());
    const made = await send("POST", path, bearer, { url: "http://127.0.0.1:7000/hook" });
    const { id } = (await made.json()) as { id: string };
    allowTargets("public");
    expect((await get(`${path}/${id}/test`, bearer, "POST")).status).toBe(202);
    await vi.waitUntil(async () => (await list())[0]?.failingSince !== null);
    expect((await list())[0]?.lastDelivery).toMatchObject({ status: null });
    expect(receiver.requests).toEqual([]);
  });

  test("is one of a limited number", async () => {
    setLimits({ webhooksPerWorkspace: 2 });
    const workspace = workspaceName();
    const [first] = [await make(workspace), await make(workspace)];
    const { path, bearer } = await adminOf(workspace);
    const order = { url: "https://receiver.test/" };
    expect((await send("POST", path, bearer, order)).status).toBe(409);
    expect((await get(`${path}/${first?.id}`, bearer, "DELETE")).status).toBe(204);
    expect((await send("POST", path, bearer, order)).status).toBe(201);
  });

  test("cannot be made on a gateway without SECRETS_KEY", async () => {
    const stub = workspaceStub(workspaceName());
    const made = await runInDurableObject(stub, (_, state) =>
      new Webhooks({
        ctx: state,
        env: { ...env, SECRETS_KEY: "" },
        limits: DEFAULT_LIMITS,
        store: { exists: false, identity: () => undefined },
        timers: { set() {}, clear() {} },
        callbacks: { wantedWebhookTypesChanged() {} },
      }).create(
        { url: "https://receiver.test/", events: ["turn.ended"], links: false, origin: "" },
        { subject: "someone", jti: null, workspace: null },
      ),
    );
    expect(made).toMatchObject({ ok: false, refusal: { reason: "not-configured" } });
  });

  test("belongs to its workspace and is unknown to all others", async () => {
    const [here, there] = [workspaceName(), workspaceName()];
    const made = await make(here);
    const other = await adminOf(there);
    expect(await other.list()).toEqual([]);
    expect((await get(`${other.path}/${made.id}`, other.bearer, "DELETE")).status).toBe(404);
    expect((await get(`${other.path}/${made.id}/test`, other.bearer, "POST")).status).toBe(404);
    const mine = await adminOf(here);
    expect((await get(mine.path, other.bearer)).status).toBe(404);
    expect((await get(`${mine.path}/${made.id}`, other.bearer, "DELETE")).status).toBe(404);
    expect((await mine.list()).map(({ id }) => id)).toEqual([made.id]);
  });

  test("is deleted with its waiting messages and its links", async () => {
    const workspace = workspaceName();
    const made = await make(workspace);
    const { path, bearer, list, audit } = await adminOf(workspace);
    receiver.answer = () => new Response(null, { status: 500 });
    await get(`${path}/${made.id}/test`, bearer, "POST");
    await vi.waitUntil(async () => (await list())[0]?.failingSince !== null);
    expect(await workspaceStub(workspace).isWebhookActive(made.id)).toBe(true);
    expect((await get(`${path}/${made.id}`, bearer, "DELETE")).status).toBe(204);
    expect(await workspaceStub(workspace).isWebhookActive(made.id)).toBe(false);
    expect((await get(`${path}/${made.id}`, bearer, "DELETE")).status).toBe(404);
    await dueOf(workspace);
    const left = await runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
      storage.sql.exec("SELECT 1 FROM delivery").toArray(),
    );
    expect(left).toEqual([]);
    expect(receiver.requests).toHaveLength(1);
    const entries = (await audit("webhook.deleted")).filter((one) => one.workspace === workspace);
    expect(entries).toMatchObject([{ subject: "someone", detail: { webhook: made.id } }]);
  });
});
