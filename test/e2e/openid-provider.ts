/** A real OpenID provider on loopback, with the pages at which a person logs in and confirms. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Provider from "oidc-provider";
import type { Page } from "playwright-core";
import { onTestFinished } from "vitest";

export type OpenIdProvider = { issuer: string; clientId: string };

/** The provider's accounts are mail addresses. Any password is right. */
export async function startOpenIdProvider(): Promise<OpenIdProvider> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
  // The gateway is at 127.0.0.1, which is another site for a browser.
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
  const clientId = "acp-edge";
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        application_type: "native",
        token_endpoint_auth_method: "none",
        grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        response_types: ["code"],
        // Of a native client on loopback any port is accepted.
        redirect_uris: ["http://127.0.0.1/login/callback"],
      },
    ],
    pkce: { required: () => true },
    scopes: ["openid", "email", "profile", "offline_access"],
    claims: { openid: ["sub"], email: ["email"], profile: ["name"] },
    conformIdTokenClaims: false,
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id, email: id }) }),
    cookies: { keys: [crypto.randomUUID()] },
    ttl: { IdToken: 3600, AccessToken: 3600, Session: 3600, Interaction: 600, Grant: 3600, DeviceCode: 600 },
  });
  server.on("request", provider.callback());
  onTestFinished(() => void server.close());
  return { issuer, clientId };
}

/** Goes through the provider's pages as a person does, until the provider lets the browser go. */
export async function logInAt(page: Page, { issuer }: OpenIdProvider, mail: string): Promise<void> {
  for (let step = 0; step < 6 && page.url().startsWith(issuer); step++) {
    const login = page.locator('input[name="login"]');
    if (await login.count()) {
      await login.fill(mail);
      await page.locator('input[name="password"]').fill("anything");
    }
    const submit = page.locator('button[type="submit"], [type="submit"]').first();
    if (!(await submit.count())) return;
    await Promise.all([page.waitForEvent("framenavigated"), submit.click()]);
    await page.waitForLoadState("load");
  }
}
