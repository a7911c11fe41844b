import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { get, openSession, workspaceName } from "../fixtures.ts";
import { token } from "../tokens.ts";

/** The index answers every query with an error of D1, while all objects work. */

const TABLES = ["sessions", "permissions", "workspaces"];

let error: ReturnType<typeof vi.spyOn>;
let isAway = false;

beforeEach(() => {
  error = vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(async () => {
  error.mockRestore();
  if (isAway) await rename((table) => [`${table}_away`, table]);
  isAway = false;
});

async function rename(names: (table: string) => [from: string, to: string]): Promise<void> {
  await env.INDEX.batch(
    TABLES.map((table) => {
      const [from, to] = names(table);
      return env.INDEX.prepare(`ALTER TABLE ${from} RENAME TO ${to}`);
    }),
  );
}

async function takeIndexAway(): Promise<void> {
  await rename((table) => [table, `${table}_away`]);
  isAway = true;
}

test.each(["/api/sessions", "/api/permissions", "/api/workspaces"])(
  "a list answers 503 and says when to try again: %s",
  async (path) => {
    const bearer = await token({ workspace: workspaceName() });
    expect((await get(path, bearer)).status).toBe(200);
    await takeIndexAway();
    const response = await get(path, bearer);
    expect(response.status).toBe(503);
    expect(response.headers.get("Retry-After")).toBe("1");
    expect(await response.json()).toMatchObject({ error: { code: "unavailable" } });
    expect(error).toHaveBeenCalledWith("index not read", { error: expect.stringContaining("D1_ERROR") });
  },
);

test("session/list answers an error that says when to try again, and its connection goes on", async () => {
  const { client, sessionId } = await openSession();
  await takeIndexAway();
  const { response } = await client.request("session/list", {});
  expect(response).toMatchObject({ error: { code: -32603, data: { retryAfterMs: 1000 } } });
  await rename((table) => [`${table}_away`, table]);
  isAway = false;
  await vi.waitFor(async () => {
    const listed = (await client.request("session/list", {})).response;
    expect(JSON.stringify(listed)).toContain(sessionId);
  });
});
