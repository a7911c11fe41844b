import { env, exports } from "cloudflare:workers";
import { base64url, decodeJwt, decodeProtectedHeader, SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { type AnswerLink, answerUrl, makeAnswerLink, readAnswerLink } from "../../../src/auth/answer-link.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { get, send } from "../fixtures.ts";
import { mint } from "../tokens.ts";
import {
  asking,
  isPending,
  linked,
  type Made,
  statusOf,
  tokenIn,
  UNTOUCHABLE,
  urlOf,
  withBindings,
} from "./fixtures.ts";

/** A link with other contents that is signed by us. */
async function madeUp(made: Made, other: Partial<AnswerLink>): Promise<string> {
  const link = await readAnswerLink(env, tokenIn(urlOf(made, "yes")));
  if (!link.ok) throw new Error(link.refusal);
  return answerUrl("https://edge.test", (await makeAnswerLink(env, { ...link.value, ...other })) as string);
}

describe("an invalid answer link", () => {
  test("is answered without reaching any object", async () => {
    const place = await asking();
    const url = urlOf(await linked(place), "yes");
    const token = tokenIn(url);
    const [header, payload, signature] = token.split(".") as [string, string, string];
    const unsigned = base64url.encode(JSON.stringify({ ...decodeProtectedHeader(token), alg: "none" }));
    const otherwise = base64url.encode(JSON.stringify({ ...decodeJwt(token), optionId: "no" }));
    // This link is signed with SECRETS_KEY itself instead of the key derived for links.
    const secret = base64url.decode(env.SECRETS_KEY as string);
    const raw = await new SignJWT(decodeJwt(token))
      .setProtectedHeader({ ...decodeProtectedHeader(token), alg: "HS256" })
      .sign(secret);
    const bad = [
      ...["", "x", "a.b.c", "%00", `${token}.${signature}`, `${header}.${payload}`, `${header}.${payload}.`],
      ...[
        `${unsigned}.${payload}.`,
        `${unsigned}.${payload}.${signature}`,
        `${header}.${otherwise}.${signature}`,
      ],
      ...[raw, place.owner],
    ];
    for (const text of bad) {
      const response = await withBindings(UNTOUCHABLE, answerUrl("https://edge.test", text), {
        method: "POST",
      });
      expect(response.status, text).toBe(404);
    }
    expect((await withBindings(UNTOUCHABLE, "https://edge.test/answer")).status).toBe(404);
    // A valid link would reach an object.
    expect((await withBindings(UNTOUCHABLE, url)).status).toBe(500);
    expect(await isPending(place)).toBe(true);
  });

  test("is rate limited like any request, and opens no socket for a foreign page", async () => {
    const url = answerUrl("https://edge.test", "x");
    const keys: string[] = [];
    const limit = async ({ key }: { key: string }) => {
      keys.push(key);
      return { success: false };
    };
    const headers = { "CF-Connecting-IP": "192.0.2.7" };
    const limited = await withBindings({ ...UNTOUCHABLE, RATE_LIMITER: { limit } }, url, { headers });
    expect(limited.status).toBe(429);
    expect(keys).toEqual(["address:192.0.2.7"]);
    const socket = { Upgrade: "websocket", Origin: "https://elsewhere.example" };
    expect((await withBindings(UNTOUCHABLE, url, { headers: socket })).status).toBe(403);
    const long = answerUrl("https://edge.test", "x".repeat(DEFAULT_LIMITS.urlChars));
    expect((await withBindings(UNTOUCHABLE, long)).status).toBe(414);
  });

  test("is any link with a single bit changed", async () => {
    const token = tokenIn(urlOf(await linked(await asking()), "yes"));
    expect(await readAnswerLink(env, token)).toHaveProperty("ok", true);
    const parts = token.split(".").map((part) => base64url.decode(part));
    for (const [at, part] of parts.entries()) {
      for (const index of part.keys()) {
        const changed = parts.map((bytes) => new Uint8Array(bytes));
        (changed[at] as Uint8Array)[index]! ^= 1 << (index % 8);
        const text = changed.map((bytes) => base64url.encode(bytes)).join(".");
        expect(await readAnswerLink(env, text), `part ${at}, byte ${index}`).toHaveProperty("ok", false);
      }
    }
  });

  test("is a token used as a link, and a link is no token", async () => {
    const place = await asking();
    const link = tokenIn(urlOf(await linked(place), "yes"));
    expect(await statusOf(answerUrl("https://edge.test", place.owner), "POST")).toBe(404);
    for (const path of [
      "/api/sessions",
      `/api/sessions/${place.sessionId}`,
      "/api/audit",
      "/acp",
      "/agent/ws",
    ]) {
      expect((await get(path, link)).status, path).toBe(401);
      expect((await get(`${path}?token=${link}`)).status, path).toBe(401);
    }
    const answer = { optionId: "yes" };
    expect((await send("POST", `/api/permissions/${place.permission}`, link, answer)).status).toBe(401);
    expect((await send("POST", `/api/permissions/${place.permission}/links`, link, {})).status).toBe(401);
    expect((await send("POST", "/api/login", link, { token: link })).status).toBe(401);
    expect(await isPending(place)).toBe(true);
  });

  test("is a link we signed for another tenant, workspace, session, request or option", async () => {
    const place = await asking();
    const made = await linked(place);
    const status = async (other: Partial<AnswerLink>) => statusOf(await madeUp(made, other), "POST");
    expect(await status({ tenant: "other" })).toBe(410);
    expect(await status({ workspace: "elsewhere" })).toBe(410);
    expect(await status({ session: (await asking()).sessionId })).toBe(410);
    expect(await status({ seq: 1 })).toBe(410);
    expect(await status({ optionId: "maybe" })).toBe(404);
    expect(await status({ webhook: "unknown" })).toBe(404);
    expect(await isPending(place)).toBe(true);
    expect(await status({})).toBe(200);
  });

  test("is a link revoked by its id or with its maker, until the revocation is lifted", async () => {
    const place = await asking();
    const sub = crypto.randomUUID();
    const made = await linked(place, {}, { sub });
    const other = await linked(place);
    for (const order of [{ jti: made.id }, { subject: sub }]) {
      const revocation = await send("POST", "/api/revocations", place.owner, order);
      expect(revocation.status).toBe(201);
      for (const option of ["yes", "no"]) {
        expect(await statusOf(urlOf(made, option))).toBe(404);
        expect(await statusOf(urlOf(made, option), "POST")).toBe(404);
      }
      expect(await statusOf(urlOf(other, "yes"))).toBe(200);
      const { id } = await revocation.json<{ id: string }>();
      expect((await get(`/api/revocations/${id}`, place.owner, "DELETE")).status).toBe(204);
    }
    expect(await isPending(place)).toBe(true);
    expect(await statusOf(urlOf(made, "yes"), "POST")).toBe(200);
  });

  test("is no link whose maker has logged out, because a logout ends the token alone", async () => {
    const place = await asking();
    const jti = crypto.randomUUID();
    const url = urlOf(await linked(place, {}, { jti }), "yes");
    const token = await mint({ workspaces: [place.workspace], sub: "owner", jti });
    const headers = { Cookie: `__Host-acp_edge_session=${token}` };
    const ended = await exports.default.fetch("https://edge.test/api/logout", { method: "POST", headers });
    expect(ended.status).toBe(204);
    expect((await get("/api/sessions", token)).status).toBe(401);
    expect(await statusOf(url, "POST")).toBe(200);
  });

  test("is a link to a revoked session, which only administrators can see", async () => {
    const place = await asking();
    const url = urlOf(await linked(place), "yes");
    const order = { session: place.sessionId };
    expect((await send("POST", "/api/revocations", place.owner, order)).status).toBe(201);
    expect(await statusOf(url)).toBe(410);
    expect(await statusOf(url, "POST")).toBe(410);
    expect(await isPending(place)).toBe(true);
  });
});
