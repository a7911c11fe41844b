import { describe, expect, test } from "vitest";
import { makeAnswerLink, makeAnswerLinks, readAnswerLink } from "../../../src/auth/answer-link.ts";

const key = (byte: number) => Buffer.alloc(32, byte).toString("base64url");
const ENV = { SECRETS_KEY: key(7) };
const LINK = {
  tenant: "acme",
  workspace: "web",
  session: "7d3f9f9e-2f5c-4f4e-9a51-0f8a3f6f4f10",
  seq: 12,
  by: "alice",
  maker: { subject: "alice", jti: "token-1", workspace: null },
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
    const other = { SECRETS_KEY: key(8) };
    expect(await readAnswerLink(other, link)).toEqual({ ok: false, refusal: "invalid" });
    expect(await readAnswerLink({}, link)).toEqual({ ok: false, refusal: "invalid" });
  });

  test("stays valid while its key is a previous one, and expires all the same", async () => {
    const rotated = { SECRETS_KEY: key(8), SECRETS_KEY_PREVIOUS: `${key(9)} ${ENV.SECRETS_KEY}` };
    expect(await readAnswerLink(rotated, await linkTo("yes"))).toMatchObject({ ok: true });
    const expired = await linkTo("yes", { expires: 1 });
    expect(await readAnswerLink(rotated, expired)).toEqual({ ok: false, refusal: "expired" });
  });

  test("is never made under a previous key", async () => {
    const rotated = { SECRETS_KEY: key(8), SECRETS_KEY_PREVIOUS: ENV.SECRETS_KEY };
    const link = (await makeAnswerLink(rotated, { ...LINK, optionId: "yes" })) as string;
    expect(await readAnswerLink(ENV, link)).toEqual({ ok: false, refusal: "invalid" });
    expect(await readAnswerLink({ SECRETS_KEY: key(8) }, link)).toMatchObject({ ok: true });
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
