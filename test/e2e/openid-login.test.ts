import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startBrowser } from "./browser.ts";
import { acpEdge, emptyEnvironment, startAcpEdge } from "./command.ts";
import { startGateway } from "./gateway.ts";
import { logInAt, type OpenIdProvider, startOpenIdProvider } from "./openid-provider.ts";

/** The issuer as an operator configures it: everybody of one domain may prompt in one workspace. */
function issuers({ issuer, clientId }: OpenIdProvider): string {
  return JSON.stringify([
    {
      issuer,
      audience: clientId,
      jwksUrl: `${issuer}/jwks`,
      claims: { subject: "email" },
      grants: [
        {
          when: { email: "*@acme.example" },
          tenant: "local",
          workspaces: ["local"],
          scopes: ["session:read", "session:prompt"],
        },
      ],
      login: { name: "acme", clientId },
    },
  ]);
}

async function startStack() {
  const provider = await startOpenIdProvider();
  const gateway = await startGateway({ env: { ACP_EDGE_AUTH_ISSUERS: issuers(provider) } });
  onTestFinished(() => gateway[Symbol.asyncDispose]());
  const browser = await startBrowser();
  onTestFinished(() => browser.close());
  return { provider, gateway, page: await browser.newPage() };
}

test("a browser logs in at an OpenID provider and reads sessions by its cookie", async () => {
  const { provider, gateway, page } = await startStack();
  await page.goto(`${gateway.url}/login?to=/api/sessions`);
  expect(page.url()).toContain(provider.issuer);
  await logInAt(page, provider, "ada@acme.example");
  await page.waitForURL(`${gateway.url}/api/sessions`);
  expect(await page.textContent("body")).toContain('"sessions":[]');
  const cookies = await page.context().cookies(gateway.url);
  expect(cookies.map(({ name, httpOnly }) => [name, httpOnly])).toEqual([["acp_edge_session", true]]);
});

test("an account without a grant, a foreign response and a strange destination get nowhere", async () => {
  const { provider, gateway, page } = await startStack();
  await page.goto(`${gateway.url}/login`);
  await logInAt(page, provider, "mallory@elsewhere.example");
  expect(await page.textContent("h1")).toBe("Not logged in");
  expect(await page.context().cookies(gateway.url)).toEqual([]);

  // A response to a login that another browser began.
  const foreign = await fetch(`${gateway.url}/login/callback?code=stolen&state=guessed`);
  expect(foreign.status).toBe(400);
  expect(foreign.headers.get("set-cookie") ?? "").not.toContain("acp_edge_session");

  const begun = await fetch(`${gateway.url}/login?to=https://evil.example/`, { redirect: "manual" });
  const pending = begun.headers.get("set-cookie") ?? "";
  expect(decodeURIComponent(pending)).toContain('"to":"/"');
  expect(pending).toMatch(/HttpOnly; SameSite=Lax/);
  // Paths whose normal form is an address elsewhere, also after two readings.
  for (const to of [
    "/.//evil.example",
    `/.//${new URL(gateway.url).host}//evil.example`,
    "/\\evil.example",
  ]) {
    const query = new URLSearchParams({ to });
    const answer = await fetch(`${gateway.url}/login?${query}`, { redirect: "manual" });
    const kept = /"to":"([^"]*)"/.exec(decodeURIComponent(answer.headers.get("set-cookie") ?? ""))?.[1];
    expect(kept).toMatch(/^\/(?![/\\])/);
  }
  const sent = new URL(begun.headers.get("location") ?? "").searchParams;
  expect(sent.get("code_challenge_method")).toBe("S256");

  // The right browser with a wrong state, and with a code that the provider never gave.
  const cookie = pending.slice(0, pending.indexOf(";"));
  const states = ["wrong", sent.get("state") ?? ""];
  for (const state of states) {
    const query = new URLSearchParams({ code: "made-up", state, iss: provider.issuer });
    const answer = await fetch(`${gateway.url}/login/callback?${query}`, { headers: { cookie } });
    expect(answer.status).toBe(403);
    expect(answer.headers.get("set-cookie") ?? "").not.toContain("acp_edge_session");
  }
});

test("the command logs in by the device flow and renews its token by itself", async () => {
  const { provider, gateway, page } = await startStack();
  const env = emptyEnvironment();
  const running = startAcpEdge(["login", "--device", "--url", gateway.url], env);
  await running.prints("confirm the code");
  const url = /Open (\S+)/.exec(running.stderr)?.[1] ?? "";
  await page.goto(url);
  await logInAt(page, provider, "ada@acme.example");
  expect(await running.ended).toMatchObject({ code: 0, stdout: expect.stringContaining("login stored") });

  const file = join(env.XDG_CONFIG_HOME ?? "", "acp-edge/logins/default.json");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const listed = await acpEdge(["sessions", "ls", "--json"], env);
  expect(listed).toMatchObject({ code: 0 });

  // A token that has expired is replaced before it is sent.
  const login = JSON.parse(readFileSync(file, "utf8")) as { token: string };
  const [head, , signature] = login.token.split(".");
  const expired = Buffer.from(JSON.stringify({ exp: 1 })).toString("base64url");
  writeFileSync(file, JSON.stringify({ ...login, token: `${head}.${expired}.${signature}` }));
  expect(await acpEdge(["sessions", "ls", "--json"], env)).toMatchObject({ code: 0 });
  const renewed = JSON.parse(readFileSync(file, "utf8")) as { token: string };
  expect(renewed.token.split(".")[1]).not.toBe(expired);
});

test("the command keeps nothing of a login that the gateway gives no rights, or that is interrupted", async () => {
  const { provider, gateway, page } = await startStack();
  const env = emptyEnvironment();
  const refused = startAcpEdge(["login", "--device", "--url", gateway.url], env);
  await refused.prints("confirm the code");
  await page.goto(/Open (\S+)/.exec(refused.stderr)?.[1] ?? "");
  await logInAt(page, provider, "mallory@elsewhere.example");
  expect(await refused.ended).toMatchObject({ code: 3, stderr: expect.stringContaining("no rights") });
  const interrupted = startAcpEdge(["login", "--device", "--url", gateway.url], env);
  await interrupted.prints("confirm the code");
  interrupted.child.kill("SIGINT");
  expect(await interrupted.ended).toMatchObject({ code: 130 });
  expect(existsSync(join(env.XDG_CONFIG_HOME ?? "", "acp-edge"))).toBe(false);
});

test("a gateway without a provider says so, and a token is stored as before", async () => {
  await using gateway = await startGateway();
  const env = emptyEnvironment();
  const device = await acpEdge(["login", "--device", "--url", gateway.url], env);
  expect(device).toMatchObject({ code: 2, stderr: expect.stringContaining("--with-token") });
  const stored = await acpEdge(["login", "--url", gateway.url], env, { input: gateway.token });
  expect(stored).toMatchObject({ code: 0 });
  const answer = await fetch(`${gateway.url}/login`);
  expect(answer.status).toBe(404);
});
