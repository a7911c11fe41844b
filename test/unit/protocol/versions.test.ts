import { describe, expect, test } from "vitest";
import {
  ATTACHMENT_VERSION,
  NEWEST_READ,
  NewerVersion,
  RPC_VERSION,
  readable,
} from "../../../src/protocol/versions.ts";

describe("the versions of forms", () => {
  test("that this release writes are read by it too", () => {
    expect(ATTACHMENT_VERSION).toBeLessThanOrEqual(NEWEST_READ.attachment);
    expect(RPC_VERSION).toBeLessThanOrEqual(NEWEST_READ.rpc);
  });

  test("are readable up to the newest one that is read, whatever is written", () => {
    for (const v of [undefined, 1, RPC_VERSION, NEWEST_READ.rpc])
      expect(readable({ v }, "A page")).toEqual({ v });
    expect(() => readable({ v: NEWEST_READ.rpc + 1 }, "A page")).toThrow(NewerVersion);
  });
});
