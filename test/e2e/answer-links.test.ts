/** Answer links followed in a real browser: the agent in a real process gets the answer. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startBrowser } from "./browser.ts";
import { Client, readLog } from "./client.ts";
import { type Gateway, startGateway } from "./gateway.ts";

let gateway: Gateway;
let editor: Client;
let browser: Browser;
beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway(), startBrowser()]);
  editor = await Client.connect(gateway);
});
afterAll(async () => {
  await browser?.close();
  await editor?.close();
  await gateway?.[Symbol.asyncDispose]();
});

type Made = { links: { optionId: string; name: string; url: string }[] };

/** The agent requests a permission with the given title; `urlOf` gives the link of an option. */
async function asking(title: string) {
  const session = await editor.newSession();
  const turn = editor.prompt(session, `/permission ${title}`);
  const { id } = await editor.receives(
    ({ method, params }) => method === "session/request_permission" && params?.sessionId === session,
  );
  const response = await gateway.api(`/api/permissions/${id}/links`, { method: "POST" });
  expect(response.status).toBe(201);
  const { links } = (await response.json()) as Made;
  const urlOf = (option: string) => links.find(({ optionId }) => optionId === option)?.url as string;
  return { session, turn, urlOf };
}

/** The browser of a phone, and the errors it reports. */
async function phone(colorScheme: "light" | "dark" = "light"): Promise<{ page: Page; complaints: string[] }> {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, colorScheme });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => complaints.push(dialog.message()));
  return { page, complaints };
}

describe("a link opened on a phone", () => {
  test("answers when its button is pressed, and the turn goes on", async () => {
    const { session, turn, urlOf } = await asking("Water the <script>alert(1)</script> plants");
    const { page, complaints } = await phone();
    await page.goto(urlOf("allow"));
    expect(await page.getByRole("heading").textContent()).toBe("Water the <script>alert(1)</script> plants");
    expect(await page.getByRole("button").count()).toBe(1);
    const fits = await page.evaluate("document.documentElement.scrollWidth <= innerWidth");
    expect(fits).toBe(true);
    const [answered] = await Promise.all([page.waitForNavigation(), page.getByRole("button").click()]);
    expect(answered?.status()).toBe(200);
    expect(await page.locator("main").textContent()).toContain("Allowed");
    expect((await turn).stopReason).toBe("end_turn");
    await editor.hears(session, "Permission selected: allow");
    expect(complaints).toEqual([]);
    const decided = (await readLog(gateway, session)).find(({ kind }) => kind === "permission.responded");
    expect(decided?.payload).toMatchObject({ by: "link", subject: "local" });

    expect((await page.goto(urlOf("reject")))?.status()).toBe(410);
    expect(await page.getByRole("button").count()).toBe(0);
    // The page's address contains the link: neither the gateway nor the host logs it.
    expect(gateway.log()).not.toContain(new URL(urlOf("allow")).searchParams.get("link"));
  });

  test("marks its options by what they do, in light and dark mode", async () => {
    const { turn, urlOf } = await asking("Repot the plants");
    const looks = async (option: string, colorScheme: "light" | "dark") => {
      const { page, complaints } = await phone(colorScheme);
      await page.goto(urlOf(option));
      const look = await page.getByRole("button").evaluate((button) => {
        const { backgroundColor, color } = getComputedStyle(button);
        return `${backgroundColor} ${color} ${getComputedStyle(document.body).backgroundColor}`;
      });
      expect(complaints).toEqual([]);
      return look;
    };
    const seen = [
      await looks("allow", "light"),
      await looks("reject", "light"),
      await looks("allow", "dark"),
      await looks("reject", "dark"),
    ];
    expect(new Set(seen).size).toBe(4);
    const { page } = await phone();
    await page.goto(urlOf("allow-always"));
    expect(await page.locator("main").textContent()).toContain("always, not only once");
    await page.goto(urlOf("reject"));
    await page.getByRole("button").click();
    await turn;
  });
});
