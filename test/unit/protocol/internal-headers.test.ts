import { describe, expect, test } from "vitest";
import type { Caller } from "../../../src/protocol/caller.ts";
import { HANDOVER, HOST, RESUMPTION, STREAM, WATCH_LOG } from "../../../src/protocol/internal-headers.ts";

const CALLER: Caller = {
  tenant: "acme",
  subject: "someone",
  workspaces: ["w"],
  scopes: ["session:read"],
  expires: 1,
};

describe("an internal header", () => {
  test("is read as it was written", () => {
    const handover = {
      connection: "c",
      caller: CALLER,
      workspace: "w",
      agent: null,
      observes: true,
    } as const;
    expect(HANDOVER.read(new Headers(HANDOVER.write(handover)))).toEqual(handover);
    expect(RESUMPTION.read(new Headers(RESUMPTION.write("again")))).toBe("again");
    const stream = { caller: CALLER, session: "s", lastEventId: undefined };
    expect(STREAM.read(new Headers(STREAM.write(stream)))).toEqual({ caller: CALLER, session: "s" });
  });

  test("carries every character", () => {
    const caller = { ...CALLER, subject: "Zoë \u{1f600} \u0000\u007f\n" };
    expect(HOST.read(new Headers(HOST.write(caller)))).toEqual(caller);
  });

  test("is not read when it is missing or does not validate", () => {
    expect(HOST.read(new Headers())).toBeUndefined();
    expect(HOST.read(new Headers({ "X-Acp-Host": "{" }))).toBeUndefined();
    expect(HOST.read(new Headers({ "X-Acp-Host": JSON.stringify({ tenant: "acme" }) }))).toBeUndefined();
    const watch = JSON.stringify({ caller: CALLER, after: -1 });
    expect(WATCH_LOG.read(new Headers({ "X-Acp-Watch": watch }))).toBeUndefined();
  });
});
