import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ASK_ALWAYS,
  type PermissionPolicy,
  STRICTNESS,
  strictestVerdict,
  type Verdict,
} from "../../../src/protocol/permission-policy.ts";
import { propertyRuns } from "../../fixtures/property-runs.ts";

const VERDICT = fc.constantFrom<Verdict>("ask", "allow", "reject");
const KIND = fc.constantFrom("read", "edit", "execute", "other", "__proto__", "toString");

describe("the verdict of a policy", () => {
  test("is stricter the less it lets happen", () => {
    expect(Object.entries(STRICTNESS).sort(([, a], [, b]) => a - b)).toEqual([
      ["allow", 0],
      ["ask", 1],
      ["reject", 2],
    ]);
  });

  test.each<[PermissionPolicy["byKind"], Verdict, string]>([
    [{ read: "allow", execute: "reject" }, "reject", "execute"],
    [{ read: "reject", execute: "allow" }, "reject", "read"],
    [{ read: "allow" }, "ask", "execute"],
    [{ read: "allow", execute: "allow" }, "allow", "read"],
    [{ execute: "allow" }, "ask", "read"],
    [{ read: "reject" }, "reject", "read"],
  ])("by %j on a tool that is called read and execute is %s", (byKind, verdict, kind) => {
    expect(strictestVerdict({ ...ASK_ALWAYS, byKind }, ["read", "execute"])).toEqual({ kind, verdict });
  });

  test("on several kinds is never laxer than on one of them, in whatever order", () => {
    fc.assert(
      fc.property(
        fc.dictionary(KIND, VERDICT),
        VERDICT,
        KIND,
        fc.array(KIND),
        (byKind, otherwise, one, more) => {
          const policy = { ...ASK_ALWAYS, byKind, default: otherwise };
          const kinds = [one, ...more] as const;
          const { verdict } = strictestVerdict(policy, [one, ...more]);
          for (const kind of kinds)
            expect(STRICTNESS[verdict]).toBeGreaterThanOrEqual(
              STRICTNESS[strictestVerdict(policy, [kind]).verdict],
            );
          const [last, ...before] = kinds.toReversed() as [string, ...string[]];
          expect(strictestVerdict(policy, [last, ...before]).verdict).toBe(verdict);
        },
      ),
      propertyRuns(400),
    );
  });
});
