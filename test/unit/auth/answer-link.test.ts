import { describe, expect, test } from "vitest";
import { makeAnswerLink, makeAnswerLinks, readAnswerLink } from "../../../src/auth/answer-link.ts";

const ENV = { SECRETS_KEY: Buffer.alloc(32, 7).toString("base64url") };
const LINK = {
  tenant: "acme",
  workspace: "web",
  session: "7d3f9f9e-2f5c-4f4e-9a51-0f8a3f6f4f10",
  seq: 12,
  by: "alice",
  id: "link-1",
  expires: Math.floor(Date.now() / 1000) + 60,
};
const OPTIONS = ["yes", "no", "x".repeat(11)].map((optionId) => ({ optionId, kind: null, name: null }));
const LIMITS = { idChars: 10, answerLinks: 8 };

async function linkTo(optionId: string, changes: object = {}): Promise<string> {
  return (await makeAnswerLink(ENV, { ...LINK, optionId, ...changes })) as string;
}

describe("an answer link", () => {
  test("says what it was made for", async () => {
    const read = await readAnswerLink(ENV, await linkTo("yes"));
    expect(read).toEqual({ ok: true, value: { ...LINK, optionId: "yes" } });
  });

  test("names the webhook that sent it", async () => {
    const read = await readAnswerLink(ENV, await linkTo("yes", { webhook: "wh_1" }));
    expect(read).toMatchObject({ value: { webhook: "wh_1" } });
  });

  test("is told apart from an invalid one after it has expired", async () => {
    const expired = await linkTo("yes", { expires: 1 });
    expect(await readAnswerLink(ENV, expired)).toEqual({ ok: false, refusal: "expired" });
    expect(await readAnswerLink(ENV, "garbage")).toEqual({ ok: false, refusal: "invalid" });
  });

  test("is invalid under another key, and without one", async () => {
    const link = await linkTo("yes");
    const other = { SECRETS_KEY: Buffer.alloc(32, 8).toString("base64url") };
    expect(await readAnswerLink(other, link)).toEqual({ ok: false, refusal: "invalid" });
    expect(await readAnswerLink({}, link)).toEqual({ ok: false, refusal: "invalid" });
  });
});

describe("the answer links of a permission request", () => {
  test("leave out an option whose id is too long for a URL", async () => {
    const links = await makeAnswerLinks(ENV, "https://edge.test", LINK, OPTIONS, LIMITS);
    expect(links?.map(({ optionId }) => optionId)).toEqual(["yes", "no"]);
    expect(links?.[0]?.url).toMatch(/^https:\/\/edge\.test\/answer\?link=/);
  });

  test("are at most as many as the limit", async () => {
    const one = { ...LIMITS, answerLinks: 1 };
    expect(await makeAnswerLinks(ENV, "https://edge.test", LINK, OPTIONS, one)).toHaveLength(1);
  });

  test("are not made by a gateway without a key", async () => {
    expect(await makeAnswerLinks({}, "https://edge.test", LINK, OPTIONS, LIMITS)).toBeUndefined();
  });
});
