import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { eventsText, get, openSession, send } from "../fixtures.ts";
import { ALL_OF_A_CLIENT, type Claims, mint } from "../tokens.ts";
import {
  asking,
  follow,
  isPending,
  JSON_PLEASE,
  linked,
  type Made,
  OPTIONS,
  selected,
  statusOf,
  tokenIn,
  urlOf,
  withBindings,
} from "./fixtures.ts";

describe("answer links", () => {
  test("are made for each option by a caller that may share and answer", async () => {
    const place = await asking();
    const { permission, workspace } = place;
    const before = Date.now();
    const made = await linked(place, { expiresIn: 60 });
    expect(made).toMatchObject({ permission, links: OPTIONS });
    expect(Date.parse(made.expiresAt)).toBeLessThanOrEqual(Date.now() + 60_000);
    expect(Date.parse(made.expiresAt)).toBeGreaterThan(before + 58_000);
    for (const { url } of made.links) expect(new URL(url).pathname).toBe("/answer");
    const path = `/api/permissions/${permission}/links`;
    for (const lacking of ["share", "permission:answer"]) {
      const scopes = ALL_OF_A_CLIENT.filter((scope) => scope !== lacking);
      expect((await send("POST", path, await mint({ workspaces: [workspace], scopes }), {})).status).toBe(
        403,
      );
    }
  });

  test("are valid for a day by default and for a week at most", async () => {
    const place = await asking();
    const path = `/api/permissions/${place.permission}/links`;
    const seconds = ({ expiresAt }: Made) => Math.round((Date.parse(expiresAt) - Date.now()) / 1000);
    const day = DEFAULT_LIMITS.answerLinkSeconds;
    expect(Math.abs(seconds(await linked(place)) - day)).toBeLessThanOrEqual(60);
    const silent = await get(path, place.owner, "POST");
    expect(silent.status).toBe(201);
    expect(Math.abs(seconds(await silent.json()) - day)).toBeLessThanOrEqual(60);
    for (const order of [
      { expiresIn: DEFAULT_LIMITS.answerLinkMaxSeconds + 1 },
      { expiresIn: 0 },
      { for: 1 },
      null,
    ])
      expect((await send("POST", path, place.owner, order)).status).toBe(400);
  });

  test("cannot be made for a settled, an unknown or a foreign permission request", async () => {
    const place = await asking();
    const { permission, sessionId, workspace, client, agent, owner } = place;
    const status = async (id: string, claims: Claims = {}) => {
      const bearer = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, ...claims });
      return (await send("POST", `/api/permissions/${id}/links`, bearer, {})).status;
    };
    expect(await status(permission, { tenant: "other" })).toBe(404);
    expect(await status(permission, { workspaces: ["elsewhere"] })).toBe(404);
    expect(await status(`${sessionId}:1`)).toBe(404);
    expect(await status("nonsense")).toBe(404);
    client.send(JSON.stringify({ jsonrpc: "2.0", id: permission, result: selected("yes") }));
    await agent.line();
    expect((await send("POST", `/api/permissions/${permission}/links`, owner, {})).status).toBe(404);
  });

  test("cannot be made or followed at a gateway without SECRETS_KEY", async () => {
    const place = await asking();
    const made = await linked(place);
    const order = { method: "POST", headers: { Authorization: `Bearer ${place.owner}` } };
    const without = { SECRETS_KEY: "" };
    const path = `https://edge.test/api/permissions/${place.permission}/links`;
    const refused = await withBindings(without, path, order);
    expect(refused.status).toBe(501);
    expect(await refused.json()).toMatchObject({ error: { code: "not_configured" } });
    expect((await withBindings(without, urlOf(made, "yes"))).status).toBe(404);
  });

  test("leave out options whose ids do not fit into a URL, and options past the limit", async () => {
    const long = { optionId: "x".repeat(DEFAULT_LIMITS.idChars + 1), name: "Long", kind: "allow_once" };
    const many = Array.from({ length: 100 }, (_, n) => ({
      optionId: `o${n}`,
      name: "?",
      kind: "allow_once",
    }));
    const { links } = await linked(await asking({}, [long, ...many]));
    expect(links.map(({ optionId }) => optionId)).toEqual(
      many.slice(0, DEFAULT_LIMITS.answerLinks).map(({ optionId }) => optionId),
    );
  });
});

describe("the page of an answer link", () => {
  test("shows the question and renders everything an agent writes as text", async () => {
    const evil = `<script>alert(1)</script>"'&`;
    const place = await asking({ title: evil, kind: "execute<b>" }, [
      { optionId: "yes", name: `<img src=x onerror=alert(1)>`, kind: "allow_once" },
    ]);
    const response = await follow(urlOf(await linked(place), "yes"));
    const page = await response.text();
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toMatch(/^text\/html/);
    expect(page).toContain("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;");
    expect(page).toContain("execute&lt;b&gt;");
    expect(page).toContain("&lt;img src=x onerror=alert(1)&gt;");
    expect(page).toContain(place.workspace);
    expect(page).toContain(place.sessionId);
    expect(page).not.toMatch(/<script|<img|onerror="/);
    expect(page.match(/<button/g)).toHaveLength(1);
  });

  test("may not be cached, framed, scripted or sent as a referrer", async () => {
    const url = urlOf(await linked(await asking()), "yes");
    for (const response of [await follow(url), await follow(`${url}x`), await follow(url, "POST")]) {
      const page = await response.text();
      const policy = response.headers.get("Content-Security-Policy") ?? "";
      const [, nonce] = /style-src 'nonce-([\w-]+)'/.exec(policy) ?? [];
      expect(page).toContain(`<style nonce="${nonce}">`);
      expect(policy).toContain("default-src 'none'");
      for (const rule of ["form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"])
        expect(policy).toContain(rule);
      expect(policy).not.toContain("script-src");
      expect(Object.fromEntries(response.headers)).toMatchObject({
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "x-robots-tag": expect.stringContaining("noindex"),
      });
      // The link is the page's own address, so the page itself need not contain it.
      expect(page).not.toContain(tokenIn(url));
    }
    const [one, other] = [await follow(url), await follow(url)].map((response) =>
      response.headers.get("Content-Security-Policy"),
    );
    expect(one).not.toBe(other);
  });

  test("says what an option does, however the agent names it", async () => {
    const options = ["allow_once", "allow_always", "reject_once", "reject_always", "something_new"];
    const made = await linked(
      await asking(
        {},
        options.map((kind) => ({ optionId: kind, name: "Go", kind })),
      ),
    );
    const button = async (kind: string) => {
      const page = await (await follow(urlOf(made, kind))).text();
      const [, tone] = /<button class="([\w ]+)"><bdi>Go<\/bdi><\/button>/.exec(page) ?? [];
      return { tone, means: /<p class="means [\w ]+">(.*)<\/p>/.exec(page)?.[1] };
    };
    expect(await Promise.all(options.map(button))).toEqual([
      { tone: "allow", means: "Allows this once." },
      { tone: "allow always", means: "Allows this always, not only once." },
      { tone: "deny", means: "Denies this once." },
      { tone: "deny always", means: "Denies this always, not only once." },
      { tone: "other", means: undefined },
    ]);
  });

  test("shows a long title whole, so that nobody approves only the beginning of a command", async () => {
    const title = `echo ${"harmless ".repeat(100)}; rm -rf /`;
    const page = await (await follow(urlOf(await linked(await asking({ title })), "yes"))).text();
    expect(page).toContain(title);
  });

  test("shows the whole command, input and change, marks what cannot be seen, and isolates each line", async () => {
    const command = `echo ${"harmless ".repeat(900)}\u202e; rm -rf /`;
    const place = await asking({
      title: "Run\u200b it",
      rawInput: { command, env: { A: "b" } },
      content: [{ type: "diff", path: "/etc/passwd", oldText: "a\n", newText: "b\u2066\n" }],
    });
    const page = await (await follow(urlOf(await linked(place), "yes"))).text();
    expect(page).toContain("<h1><bdi>Run⟨U+200B⟩ it</bdi></h1>");
    expect(page).toContain(`<bdi>echo ${"harmless ".repeat(900)}⟨U+202E⟩; rm -rf /</bdi>`);
    expect(page).toContain("<bdi>/etc/passwd</bdi>");
    expect(page).toContain("<bdi>+b⟨U+2066⟩</bdi>");
    expect(page).toContain("&quot;A&quot;: &quot;b&quot;");
    expect(page).not.toMatch(/\p{Bidi_Control}|\u200b/u);
    expect(page).not.toContain("not shown");
  });

  test("shows a command that only the tool call named, from the log if it is long", async () => {
    const opened = await openSession();
    const command = `${"x".repeat(10_000)}; rm -rf /`;
    const call = { sessionUpdate: "tool_call", toolCallId: "t1", title: "Run", rawInput: { command } };
    const params = { sessionId: "agent-session", update: call };
    opened.agent.items(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params }));
    const asked = { sessionId: "agent-session", toolCall: { toolCallId: "t1" }, options: OPTIONS };
    opened.agent.items(
      JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/request_permission", params: asked }),
    );
    await opened.client.takeJson();
    const permission = (await opened.client.takeJson()).id as string;
    const url = urlOf(await linked({ ...opened, permission, owner: "" }), "no");
    expect(await (await follow(url)).text()).toContain(`<bdi>${command}</bdi>`);
  });

  test("says how much of a very long request is not shown, and what allowing then means", async () => {
    const place = await asking({ rawInput: { command: "x".repeat(100_000) } });
    const page = await (await follow(urlOf(await linked(place), "yes"))).text();
    const [, hidden] =
      /(\d+) characters are not shown here\. Allowing the request allows them too/.exec(page) ?? [];
    expect(Number(hidden)).toBeGreaterThan(100_000 - 64 * 1024);
    expect(page.length).toBeLessThan(100_000);
  });

  test("shows the announced title of the tool call when the request has none", async () => {
    const opened = await openSession();
    const call = { sessionUpdate: "tool_call", toolCallId: "t1", title: "Move the piano", kind: "move" };
    const update = { sessionId: "agent-session", update: call };
    opened.agent.items(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params: update }));
    const named = { sessionUpdate: "session_info_update", title: "Housework" };
    opened.agent.items(
      JSON.stringify({
        jsonrpc: "2.0",
        method: "session/update",
        params: { sessionId: "agent-session", update: named },
      }),
    );
    const params = { sessionId: "agent-session", toolCall: { toolCallId: "t1" }, options: OPTIONS };
    opened.agent.items(
      JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/request_permission", params }),
    );
    await opened.client.takeJson();
    await opened.client.takeJson();
    const permission = (await opened.client.takeJson()).id as string;
    const made = await linked({ ...opened, permission, owner: "" });
    expect(await (await follow(urlOf(made, "no"), "GET", JSON_PLEASE)).json()).toEqual({
      id: permission,
      workspace: opened.workspace,
      session: { id: opened.sessionId, title: "Housework" },
      title: "Move the piano",
      kind: "move",
      details: [
        { name: "title", text: "Move the piano", hiddenChars: 0 },
        { name: "kind", text: "move", hiddenChars: 0 },
      ],
      option: OPTIONS[2],
    });
  });

  test("answers nothing, however often it is opened", async () => {
    const place = await asking();
    const url = urlOf(await linked(place), "yes");
    const before = await eventsText(place.workspace, place.sessionId);
    for (const method of ["GET", "HEAD", "GET", "OPTIONS", "PUT", "DELETE", "PATCH"])
      await statusOf(url, method);
    expect(await statusOf(url, "HEAD")).toBe(200);
    expect(await eventsText(place.workspace, place.sessionId)).toBe(before);
    expect(await isPending(place)).toBe(true);
  });
});
