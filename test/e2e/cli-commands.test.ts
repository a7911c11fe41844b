import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadSigner, type TokenClaims } from "../../src/cli/token-signer.ts";
import { Client } from "./client.ts";
import {
  acpEdge,
  document,
  type Environment,
  emptyEnvironment,
  environmentOf,
  startAcpEdge,
  startOnTerminal,
} from "./command.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";

let gateway: Gateway;
let editor: Client;
let sessionId: string;
beforeAll(async () => {
  gateway = await startGateway();
  editor = await Client.connect(gateway);
  sessionId = await editor.newSession();
  await editor.prompt(sessionId, "/title A tidy house\n/tool read\n/echo first words");
  await eventually(async () => (await (await gateway.api("/api/sessions")).text()).includes("A tidy house"));
});
afterAll(async () => {
  await editor?.close();
  await gateway?.[Symbol.asyncDispose]();
});

const run = (...args: string[]) => acpEdge(args, environmentOf(gateway));
const json = async <T>(...args: string[]) => document<T>(await run(...args, "--json"));

describe("acp-edge sessions", () => {
  test("ls lists the sessions", async () => {
    expect(await json("sessions", "ls")).toMatchObject({
      sessions: [{ sessionId, title: "A tidy house", state: "active", agent: "demo", workspace: "local" }],
      nextCursor: null,
    });
    expect((await run("sessions", "ls")).stdout).toMatch(
      new RegExp(`^SESSION.*\\n${sessionId}.*A tidy house\\n$`),
    );
    expect(await json("sessions", "ls", "--workspace", "other")).toMatchObject({ sessions: [] });
  });

  test('show finds a session by its id, the beginning of its id or "last"', async () => {
    for (const name of [sessionId, sessionId.slice(0, 6), "last"])
      expect(await json("sessions", "show", name)).toMatchObject({
        schema: "acpx.session.v1",
        acpxRecordId: sessionId,
      });
    expect((await run("sessions", "show", sessionId)).stdout).toContain("first words");
  });

  test("tail prints the log from an event on, and then as it grows", async () => {
    const all = await run("sessions", "tail", sessionId, "--after", "0", "--no-follow", "--json");
    const events = all.stdout.trimEnd().split("\n");
    const whole = await (await gateway.api(`/api/sessions/${sessionId}/events`)).text();
    expect(`${events.join("\n")}\n`).toBe(whole);
    const words = await run("sessions", "tail", sessionId, "--after", "0", "--no-follow");
    expect(words.stdout.trimEnd().split("\n")).toHaveLength(events.length);

    const live = startAcpEdge(
      ["sessions", "tail", sessionId, "--after", "0", "--json"],
      environmentOf(gateway),
    );
    await live.prints("first words");
    await editor.prompt(sessionId, "/echo and then some");
    await live.prints("and then some");
    live.child.kill("SIGINT");
    expect((await live.ended).code).toBe(0);
  });

  test("watch shows the conversation, from the last turn on", async () => {
    await editor.prompt(sessionId, "/echo before");
    const live = startAcpEdge(["sessions", "watch", sessionId], environmentOf(gateway));
    await live.prints("— end_turn");
    expect(live.stdout).toBe('> /echo before\n[{"text":"/echo before","type":"text"}]\n— end_turn\n');
    await editor.prompt(sessionId, "/tool edit");
    await live.prints("✓");
    live.child.kill("SIGINT");
    expect((await live.ended).code).toBe(0);
  });

  test("export and import bring a session back, as a copy", async () => {
    const file = join(gateway.root, "session.tar");
    expect(await json("sessions", "export", sessionId, "-o", file)).toEqual({
      sessionId,
      file,
      bytes: statSync(file).size,
    });
    const copy = await json<{ sessionId: string }>("sessions", "import", file, "--new");
    expect(copy.sessionId).not.toBe(sessionId);
    expect((await run("sessions", "export", copy.sessionId, "--format", "markdown")).stdout).toContain(
      "first words",
    );
    const piped = await acpEdge(["sessions", "import", "-"], environmentOf(gateway), { input: "no archive" });
    expect(piped).toMatchObject({ code: 1, stderr: expect.stringContaining("acp-edge: the gateway says: ") });
    expect((await run("sessions", "import", "/no/such/file")).code).toBe(2);
  });

  test("close and rm end and delete a session", async () => {
    const [one, two] = [await editor.newSession(), await editor.newSession()];
    expect(await json("sessions", "close", one, two)).toEqual({ sessions: [one, two] });
    expect(await json("sessions", "show", one)).toMatchObject({ state: "completed" });
    expect(await json("sessions", "rm", one)).toEqual({ sessions: [one] });
    expect((await run("sessions", "show", one)).code).toBe(5);
    expect((await run("sessions", "rm", one)).code).toBe(5);
  });
});

describe("acp-edge permissions", () => {
  const ask = async (title: string) => {
    const session = await editor.newSession();
    const turn = editor.prompt(session, `/permission ${title}`);
    let id = "";
    await eventually(async () => {
      const { permissions } = await json<{ permissions: { id: string; title: string }[] }>(
        "permissions",
        "ls",
      );
      id = permissions.find((permission) => permission.title === title)?.id ?? "";
      return id !== "";
    });
    return { session, turn, id };
  };

  test("ls lists requests, and allow answers one by its id", async () => {
    const { session, turn, id } = await ask("Move the piano");
    expect((await run("permissions", "ls")).stdout).toContain("Move the piano");
    expect(await json("permissions", "allow", id)).toMatchObject({
      id,
      outcome: { outcome: "selected", optionId: "allow" },
    });
    await turn;
    await editor.hears(session, "Permission selected: allow");
    expect(await run("permissions", "allow", id)).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("is pending"),
    });
  });

  test("deny --always answers the request of a session", async () => {
    const { session, turn } = await ask("Sell the piano");
    expect((await run("permissions", "deny", session, "--always")).code).toBe(0);
    await turn;
    await editor.hears(session, "Permission selected: reject-always");
  });

  test("link makes links for another person to answer", async () => {
    const { session, turn, id } = await ask("Tune the piano");
    type Made = { permission: string; expiresAt: string; links: { optionId: string; url: string }[] };
    const before = Date.now();
    const { permission, expiresAt, links } = await json<Made>("permissions", "link", id, "--expires", "60s");
    expect(permission).toBe(id);
    expect(Date.parse(expiresAt)).toBeLessThanOrEqual(Date.now() + 60_000);
    expect(Date.parse(expiresAt)).toBeGreaterThan(before + 58_000);
    expect(links.map(({ optionId }) => optionId)).toEqual([
      "allow",
      "allow-always",
      "reject",
      "reject-always",
    ]);
    const shown = await run("permissions", "link", session);
    expect(shown.stdout).toMatch(/^Always allow +http\S+\/answer\?link=\S+$/m);
    expect((await run("permissions", "link", id, "--expires", "soon")).code).toBe(2);
    expect((await fetch(links[2]?.url as string, { method: "POST" })).status).toBe(200);
    await turn;
    await editor.hears(session, "Permission selected: reject");
    expect((await run("permissions", "link", id)).code).toBe(5);
  });
});

describe("acp-edge workspaces", () => {
  test("ls, hosts and agents show a workspace", async () => {
    const host = { name: "local", root: gateway.root };
    const agent = { id: "demo", default: true, available: true, ready: true };
    const withDemo = (more: object) =>
      expect.arrayContaining([expect.objectContaining({ ...agent, ...more })]);
    expect(await json("workspaces")).toMatchObject({
      workspaces: [{ id: "local", hosts: [host], agents: withDemo({}) }],
    });
    expect(await json("hosts")).toMatchObject({
      hosts: [{ workspace: "local", state: "connected", ...host }],
    });
    expect(await json("agents")).toMatchObject({ agents: withDemo({ workspace: "local" }) });
    expect((await run("agents")).stdout).toMatch(/qwen-code +local +/);
    expect((await run("workspaces", "ls")).stdout).toContain("demo*");
  });

  test("show and set read and change the settings", async () => {
    const policy = { default: "ask", byKind: { read: "allow" }, timeoutMs: null, onTimeout: "reject" };
    expect(await json("workspaces", "set", "local", "--policy", JSON.stringify(policy))).toMatchObject({
      policy,
    });
    expect(await json("workspaces", "show")).toMatchObject({ id: "local", policy });
    expect(await json("workspaces", "set", "--name", "Ours", "--shared-files")).toMatchObject({
      name: "Ours",
      sharedFiles: true,
      policy,
    });
    expect((await run("workspaces", "set")).code).toBe(1);
    expect((await run("workspaces", "set", "--policy", "{")).code).toBe(2);
    // This gateway has no containers and reports that.
    expect(await json("workspaces", "set", "--container", "null")).toMatchObject({ container: null });
    expect((await run("workspaces", "set", "--container", "{}")).stderr).toContain("AGENT_CONTAINER");
    expect((await run("workspaces", "show", "other")).code).toBe(5);
  });
});

describe("acp-edge webhooks", () => {
  test("add, ls, test and rm manage webhooks", async () => {
    const url = "http://127.0.0.1:9/hook?key=sesame";
    const made = await json<Record<string, string>>(
      "webhooks",
      "add",
      url,
      "--events",
      "turn.ended",
      "--links",
    );
    expect(made).toMatchObject({ url: "http://127.0.0.1:9/hook", events: ["turn.ended"], links: true });
    const plain = await run("webhooks", "add", "https://receiver.example");
    expect(plain).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whsec_\S{44}\n$/) });
    const { webhooks } = await json<{ webhooks: Record<string, string>[] }>("webhooks", "ls");
    expect(webhooks).toMatchObject([{ id: made.id, waiting: 0, lastDelivery: null }, { links: false }]);
    expect((await run("webhooks", "test", made.id as string)).code).toBe(0);
    await eventually(async () => (await run("webhooks")).stdout.includes("failing for"));
    const listed = await run("webhooks", "ls");
    expect(listed.stdout).toMatch(
      /^WEBHOOK .*\n.* failing for \d+s: no answer +1 +0\n.* not used yet +0 +0\n$/,
    );
    expect(listed.stdout).not.toContain("sesame");
    for (const { id } of webhooks) expect((await run("webhooks", "rm", id as string)).code).toBe(0);
    expect(await json("webhooks", "ls")).toEqual({ webhooks: [] });
    expect((await run("webhooks", "rm", made.id as string)).code).toBe(5);
    expect((await run("webhooks", "test", made.id as string)).code).toBe(5);
    expect((await run("webhooks", "add", "http://receiver.example")).code).toBe(1);
  });
});

describe("acp-edge revocations", () => {
  test("make says what it has ended, and lift brings it back", async () => {
    await run("run", "/plan");
    const share = await json<{ id: string }>("share", "make", "last");
    const hook = await json<{ id: string }>("webhooks", "add", "https://receiver.example");
    const jti = crypto.randomUUID();
    const made = await json<{ id: string; reached: object }>("revocations", "make", "--jti", jti);
    expect(made.reached).toEqual({
      ...{ shares: [], answerLinks: [], webhooks: [] },
      ...{ sockets: 0, hosts: 0, unconfirmed: 0 },
    });
    const again = await run("revocations", "make", "--jti", jti, "--for", "1h");
    expect(again).toMatchObject({ code: 0, stdout: `${made.id}\n` });
    expect(again.stderr).toContain("is open or was made: check the name");
    expect((await run("revocations")).stdout).toContain(jti);
    expect((await run("revocations", "make")).code).toBe(2);
    expect((await run("revocations", "lift", made.id)).code).toBe(0);
    expect((await run("revocations", "lift", made.id)).code).toBe(5);
    const adopted = await json<object>("webhooks", "adopt", hook.id);
    expect(adopted).toMatchObject({ id: hook.id, pausedReason: null });
    expect((await run("webhooks", "rm", hook.id)).code).toBe(0);
    expect((await run("share", "rm", share.id)).code).toBe(0);
  });
});

describe("acp-edge share", () => {
  test("make, ls and rm manage links", async () => {
    await run("run", "/plan");
    const made = (await json("share", "make", "last", "--expires", "2h")) as Record<string, string>;
    const read = () => fetch(made.url as string);
    expect(await (await read()).json()).toMatchObject({ acpxRecordId: made.session });
    expect(await json("share", "ls")).toMatchObject({ shares: [{ id: made.id, session: made.session }] });
    expect((await run("share", "rm", made.id as string)).code).toBe(0);
    expect(await json("share", "ls")).toEqual({ shares: [] });
    await expect.poll(async () => (await read()).status).toBe(401);
    expect((await run("share", "rm", made.id as string)).code).toBe(5);
    expect((await run("share", "make", "last", "--expires", "soon")).code).toBe(2);
  });

  test("make --redact shows the conversation alone", async () => {
    await run("run", "/tool execute");
    const make = async (...options: string[]) =>
      (await json("share", "make", "last", ...options)) as { id: string; url: string; redact: boolean };
    const calls = async ({ url }: { url: string }) => {
      const { toolCalls } = (await (await fetch(url)).json()) as { toolCalls: { items: object[] } };
      return toolCalls.items;
    };
    const whole = await make();
    const redacted = await make("--redact");
    expect([whole.redact, redacted.redact]).toEqual([false, true]);
    expect(await calls(whole)).toMatchObject([{ rawInput: expect.anything() }]);
    const [call] = await calls(redacted);
    expect(call).toMatchObject({ status: "completed", _meta: { "acp-edge/redacted": true } });
    for (const name of ["content", "rawInput", "rawOutput"]) expect(call).not.toHaveProperty(name);
    const listed = (await run("share", "ls")).stdout;
    expect(listed).toMatch(new RegExp(`${redacted.id}.* conversation`));
    expect(listed).toMatch(new RegExp(`${whole.id}.* everything`));
    for (const { id } of [whole, redacted]) expect((await run("share", "rm", id)).code).toBe(0);
  });
});

describe("acp-edge doctor", () => {
  type Report = { ok: boolean; steps: { name: string; status: string; detail: string; hint?: string }[] };
  const examine = async (env: Record<string, string>, ...args: string[]) => {
    const { code, stdout } = await acpEdge(["doctor", "--json", ...args], {
      ...environmentOf(gateway),
      ...env,
    });
    const report = JSON.parse(stdout) as Report;
    return { code, ok: report.ok, failed: report.steps.find(({ status }) => status === "failed"), report };
  };
  const sign = async (change: Partial<TokenClaims>, lifetime = "1 hour") => {
    const own = { sub: "me", tenant: "local", workspaces: ["local"] };
    const claims: TokenClaims = { ...own, scopes: ["session:read"], ...change };
    return (await loadSigner(gateway.state)).sign(claims, lifetime);
  };

  test("finds nothing wrong, and leaves no trace of its turn", async () => {
    const { code, ok, report } = await examine({}, "--turn");
    expect({ code, ok }).toEqual({ code: 0, ok: true });
    expect(report.steps.map(({ name, status }) => [name, status])).toEqual(
      "configuration,name,connection,gateway,token,workspace,host,agent,websocket,initialize,turn"
        .split(",")
        .map((name) => [name, "ok"]),
    );
    expect((await run("doctor")).stdout).toContain("no check failed");
  });

  test.each([
    ["no token", { ACP_EDGE_TOKEN: "" }, [], 3, "configuration", "acp-edge login"],
    ["an unknown name", { ACP_EDGE_URL: "https://gateway.invalid" }, [], 4, "name", "spelled right"],
    ["a closed port", { ACP_EDGE_URL: "http://127.0.0.1:9" }, [], 4, "connection", "Nothing listens"],
    ["no JWT", { ACP_EDGE_TOKEN: "nonsense" }, [], 3, "token", "not a JWT"],
    ["another workspace", {}, ["--workspace", "other"], 5, "workspace", "It allows: local"],
    ["an unknown agent", {}, ["--agent", "nobody"], 5, "agent", "The hosts offer: demo"],
    ["a turn that is refused", {}, ["--turn", "/refuse"], 6, "turn", undefined],
  ])("names the problem with %s", async (_, env, args, code, name, hint) => {
    const found = await examine(env as Record<string, string>, ...args);
    expect(found).toMatchObject({ code, ok: false, failed: { name } });
    if (hint !== undefined) expect(found.failed?.hint).toContain(hint);
    const { steps } = found.report;
    const after = steps.slice(steps.findIndex(({ status }) => status === "failed") + 1);
    expect(after.every(({ status }) => status === "skipped")).toBe(true);
  });

  test("tells an expired token from one that lacks a scope or is signed by others", async () => {
    const hintFor = async (token: string) => (await examine({ ACP_EDGE_TOKEN: token })).failed?.hint;
    expect(await hintFor(await sign({}, "-1 hour"))).toContain("It expired");
    expect(await hintFor(await sign({ scopes: ["host"] }))).toContain("lacks the scope session:read");
    const [head, body] = gateway.token.split(".");
    expect(await hintFor(`${head}.${body}.${"A".repeat(86)}`)).toContain("AUTH_JWKS");
  });

  test("--security tells an administrator how everything stands, and others what they may know", async () => {
    const all = await examine({}, "--security");
    expect(all).toMatchObject({ code: 0, ok: true });
    expect(new Set(all.report.steps.map(({ name }) => name))).toEqual(
      new Set(["gateway", "links", "local", "this machine"]),
    );
    const token = await sign({});
    const { report } = await examine({ ACP_EDGE_TOKEN: token }, "--security");
    expect(report.steps.filter(({ detail }) => detail.startsWith("not known"))).toHaveLength(2);

    const policy = { default: "ask", timeoutMs: 60_000, onTimeout: "allow" };
    await gateway.api("/api/workspaces/local", { method: "PUT", body: JSON.stringify({ policy }) });
    expect(await examine({}, "--security")).toMatchObject({ code: 1, ok: false, failed: { name: "local" } });
    const asking = JSON.stringify({ policy: { default: "ask" } });
    await gateway.api("/api/workspaces/local", { method: "PUT", body: asking });
  });

  test("--security of a refused token is an error, not a report", async () => {
    const env = { ...environmentOf(gateway), ACP_EDGE_TOKEN: "nonsense" };
    expect(await acpEdge(["doctor", "--security"], env)).toMatchObject({ code: 3, stdout: "" });
  });

  test("says that no host is there, and how to start one", async () => {
    const token = await sign({ workspaces: ["empty"], scopes: ["session:read", "session:prompt"] });
    expect(await examine({ ACP_EDGE_TOKEN: token })).toMatchObject({
      code: 1,
      failed: { name: "host", hint: expect.stringContaining("acp-edge host --gateway") },
    });
  });
});

describe("an error of a command", () => {
  test.each([
    ["a wrong token", { ACP_EDGE_TOKEN: "wrong" }, 3, "valid token"],
    ["an unreachable gateway", { ACP_EDGE_URL: "http://127.0.0.1:9" }, 4, "cannot be reached"],
    ["no gateway", { ACP_EDGE_URL: "" }, 2, "no gateway is configured"],
    ["a token command that fails", { ACP_EDGE_TOKEN: "", ACP_EDGE_TOKEN_COMMAND: "exit 7" }, 3, "code 7"],
    ["a wrong address", { ACP_EDGE_URL: "gopher://x" }, 2, "is not the address"],
  ])("(%s) is one sentence on stderr and an exit code", async (_, change, code, words) => {
    const env = { ...environmentOf(gateway), ...change };
    const calls = [
      ["sessions", "ls"],
      ["run", "hi"],
      ["hosts", "--json"],
    ].map((args) => acpEdge(args, env));
    for (const outcome of await Promise.all(calls)) {
      expect(outcome).toEqual({ code, stdout: "", stderr: expect.stringMatching(/^acp-edge: .*\n$/) });
      expect(outcome.stderr).toContain(words);
    }
  });
});

describe("acp-edge login", () => {
  test("stores a token the gateway accepts, for its owner alone", async () => {
    const env = emptyEnvironment();
    const login = (input: string) => acpEdge(["login", "--url", gateway.wsUrl], env, { input });
    expect((await login("wrong")).code).toBe(3);
    expect((await acpEdge(["hosts"], env)).code).toBe(2);
    expect((await login(`${gateway.token}\n`)).code).toBe(0);
    expect((await acpEdge(["hosts"], env)).stdout).toContain(gateway.root);
    const file = join(env.XDG_CONFIG_HOME as string, "acp-edge/config.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({
      profile: "default",
      profiles: { default: { url: gateway.url, token: gateway.token } },
    });
    expect((await acpEdge(["config", "get"], env)).stdout).not.toContain(gateway.token);
    // A token is sent to its own gateway only.
    const elsewhere = await acpEdge(["hosts", "--url", "http://localhost:9"], env);
    expect(elsewhere).toMatchObject({ code: 3, stderr: expect.stringContaining("no token is configured") });
  });
});

test("login asks on a terminal and hides the typed token", async () => {
  const env = emptyEnvironment();
  const login = startOnTerminal(["login", "--url", gateway.url], env);
  await login.prints("Token");
  login.type(`${gateway.token}\r`);
  await login.prints("token stored in profile default");
  expect((await login.ended).code).toBe(0);
  expect(login.stdout).not.toContain(gateway.token);
  expect((await acpEdge(["hosts"], env)).code).toBe(0);
});

test("a token command runs again when its token is refused", async () => {
  const env: Environment = { ...environmentOf(gateway), ACP_EDGE_TOKEN: "" };
  const flag = join(env.HOME as string, "asked");
  const command = `test -e ${flag} && echo ${gateway.token} || { touch ${flag}; echo old; }`;
  expect((await acpEdge(["sessions", "ls", "--token-command", command], env)).code).toBe(0);
});

test("a token made from the keys of npm start lets a host in, and its own gateway knows it", async () => {
  const env = environmentOf(gateway);
  const state = ["--state", gateway.state];
  const client = document<{ token: string }>(await acpEdge(["token", "client", ...state, "--json"], env));
  expect((await acpEdge(["sessions", "ls"], { ...env, ACP_EDGE_TOKEN: client.token })).code).toBe(0);
  const { stdout } = await acpEdge(["token", "host", ...state], env);
  const args = [
    "host",
    "--gateway",
    gateway.url,
    "--workspace",
    "local",
    "--root",
    gateway.root,
    "--name",
    "second",
  ];
  const host = startAcpEdge(args, { ...env, ACP_EDGE_HOST_TOKEN: stdout.trim() });
  await host.prints("connected");
  await eventually(async () => (await json<{ hosts: unknown[] }>("hosts")).hosts.length === 2);
  host.child.kill("SIGTERM");
  expect((await host.ended).code).toBe(0);
});

test("connect is the bridge for editors, with the same configuration", async () => {
  const bridge = startAcpEdge(["connect"], environmentOf(gateway));
  bridge.type('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n');
  await bridge.prints('"protocolVersion":1');
  bridge.child.stdin?.end();
  expect((await bridge.ended).code).toBe(0);
  expect(JSON.parse(bridge.stdout)).toMatchObject({ id: 1, result: { agentInfo: { name: "demo-agent" } } });
});

test("a restart of the gateway interrupts no command that follows a session", async () => {
  const env = environmentOf(gateway);
  const live = startAcpEdge(["sessions", "watch", sessionId], env);
  await live.prints("— end_turn");
  const args = ["--gateway", gateway.url, "--workspace", "local", "--root", gateway.root, "--name", "third"];
  const host = startAcpEdge(["host", ...args], { ...env, ACP_EDGE_HOST_TOKEN: gateway.hostToken });
  await host.prints("host: connected");
  gateway.killWorkerd();
  await host.prints("link lost, trying again in");
  await eventually(() => host.stderr.split("host: connected").length === 3);
  await using again = await Client.connect(gateway);
  await again.load(sessionId);
  await again.prompt(sessionId, "/stream 3 20");
  await live.prints("000002");
  expect(live.stderr).toBe("");
});
