import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { callObject } from "../../../src/durable/object-call.ts";
import { subjectObject } from "../../../src/durable/objects.ts";
import { SubjectState } from "../../../src/tenant/subject/subject-state.ts";

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Calls a method of an object that does this in its first calls. */
function call(times: number, fault: (ctx: DurableObjectState) => unknown) {
  let calls = 0;
  vi.spyOn(SubjectState.prototype, "takeSessionQuota").mockImplementation(function (this: SubjectState) {
    calls += 1;
    if (calls > times) return true;
    return fault((this as unknown as { ctx: DurableObjectState }).ctx) as boolean;
  });
  const tenant = crypto.randomUUID();
  const result = callObject(
    () => subjectObject(env, tenant, "someone"),
    (object) => object.takeSessionQuota(),
  );
  return { result, calls: () => calls };
}

/** As when the platform moves the object, or the object runs out of memory. */
function reset(ctx: DurableObjectState): Promise<never> {
  ctx.abort("reset by a test");
  return new Promise(() => {});
}

describe("a call to an object of the platform", () => {
  test("is repeated when the object is reset meanwhile", async () => {
    const { result, calls } = call(2, reset);
    expect(await result).toBe(true);
    expect(calls()).toBe(3);
  });

  test("ends with the error of the third reset", async () => {
    const { result, calls } = call(9, reset);
    await expect(result).rejects.toMatchObject({ durableObjectReset: true });
    expect(calls()).toBe(3);
  });

  test("is not repeated when the object itself throws", async () => {
    const { result, calls } = call(1, () => {
      throw new Error("an error of the object");
    });
    await expect(result).rejects.toMatchObject({ message: "an error of the object", remote: true });
    expect(calls()).toBe(1);
  });

  test("is not repeated when the object could not reach a third one: that call had its own tries", async () => {
    const { result, calls } = call(1, () => {
      throw Object.assign(new Error("reset"), { durableObjectReset: true });
    });
    await expect(result).rejects.toMatchObject({ durableObjectReset: true, remote: true });
    expect(calls()).toBe(1);
  });
});
