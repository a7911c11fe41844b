import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { describe, expect, test, vi } from "vitest";
import { httpErrorOf, RefusalException, respondToError, unwrap } from "../../../src/http/refusal-response.ts";
import { accepted, type Refusal, refused } from "../../../src/protocol/refusal.ts";

const message = "because";
const option = { optionId: "a", kind: "allow_once", name: "Allow" };

describe("httpErrorOf", () => {
  test.each<[Refusal, number, string]>([
    [{ reason: "not-found", message, data: { sessionId: "s" } }, 404, "not_found"],
    [{ reason: "gone", message }, 410, "gone"],
    [{ reason: "forbidden", message }, 403, "forbidden"],
    [{ reason: "invalid", message }, 400, "bad_request"],
    [{ reason: "no-agent", message, agents: ["a"] }, 400, "bad_request"],
    [{ reason: "conflict", message }, 409, "conflict"],
    [{ reason: "too-many", message, retryAfterMs: 5 }, 429, "too_many_requests"],
    [{ reason: "not-configured", message }, 501, "not_configured"],
    [{ reason: "unavailable", message }, 503, "unavailable"],
  ])("maps %j to status %i", (refusal, status, code) => {
    expect(httpErrorOf(refusal)).toEqual({ status, body: { error: { code, message } } });
  });

  test("lists the options with an unknown option", () => {
    const refusal: Refusal = { reason: "no-option", message, options: [option] };
    const error = { code: "bad_option", message, options: [option] };
    expect(httpErrorOf(refusal)).toEqual({ status: 400, body: { error } });
  });
});

describe("unwrap", () => {
  test("returns the value of an accepted result", () => {
    expect(unwrap(accepted(1))).toBe(1);
  });

  test("throws the refusal of a refused result", () => {
    expect(() => unwrap(refused({ reason: "conflict", message }))).toThrow(RefusalException);
  });
});

describe("respondToError", () => {
  async function answerTo(error: Error): Promise<Response> {
    const app = new Hono();
    app.get("/", () => {
      throw error;
    });
    app.onError((thrown, c) => respondToError(c, thrown));
    return app.request("/");
  }

  test("tells the client of a used up quota when to retry, in whole seconds", async () => {
    const response = await answerTo(
      new RefusalException({ reason: "too-many", message, retryAfterMs: 1200 }),
    );
    expect(response.status).toBe(429);
    expect(response.headers.get("Retry-After")).toBe("2");
    expect(await response.json()).toEqual({ error: { code: "too_many_requests", message } });
  });

  test("names the code of an HTTP exception", async () => {
    const response = await answerTo(new HTTPException(413, { message }));
    expect(response.status).toBe(413);
    expect(await response.json()).toEqual({ error: { code: "too_large", message } });
  });

  test("hides the message of any other error", async () => {
    const log = vi.spyOn(console, "error").mockReturnValue();
    const response = await answerTo(new Error("secret"));
    expect(response.status).toBe(500);
    expect(await response.json()).toEqual({ error: { code: "internal", message: "Internal error" } });
    expect(log).toHaveBeenCalledOnce();
    log.mockRestore();
  });
});
