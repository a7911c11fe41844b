import { z } from "zod";

/**
 * The decisions of a workspace about permission requests, made in advance: by the kind of tool, as the agent names it,
 * and for requests that nobody answers. `ask` leaves the decision to people.
 */
export const PERMISSION_POLICY = z.strictObject({
  default: z.enum(["ask", "allow", "reject"]).default("ask"),
  byKind: z
    .record(z.string().min(1).max(64), z.enum(["ask", "allow", "reject"]))
    .refine((kinds) => Object.keys(kinds).length <= 50, "at most 50 kinds")
    .default({}),
  /** Null: a request waits until a person answers it. */
  timeoutMs: z
    .number()
    .int()
    .min(100)
    .max(30 * 24 * 60 * 60 * 1000)
    .nullable()
    .default(null),
  onTimeout: z.enum(["reject", "allow"]).default("reject"),
});

export type PermissionPolicy = z.infer<typeof PERMISSION_POLICY>;
export type Verdict = PermissionPolicy["default"];

export const ASK_ALWAYS: PermissionPolicy = {
  default: "ask",
  byKind: {},
  timeoutMs: null,
  onTimeout: "reject",
};

/** The strictness of verdicts: of two that could hold, the one with the higher number does. */
export const STRICTNESS: Readonly<Record<Verdict, number>> = { allow: 0, ask: 1, reject: 2 };

/** The strictest verdict on any of these kinds, and the first kind that it is about. */
export function strictestVerdict(
  policy: PermissionPolicy,
  kinds: readonly [string, ...string[]],
): { kind: string; verdict: Verdict } {
  const [first, ...others] = kinds.map((kind) => ({ kind, verdict: verdictFor(policy, kind) }));
  return others.reduce(
    (most, one) => (STRICTNESS[one.verdict] > STRICTNESS[most.verdict] ? one : most),
    first as { kind: string; verdict: Verdict },
  );
}

function verdictFor(policy: PermissionPolicy, kind: string): Verdict {
  return (Object.hasOwn(policy.byKind, kind) ? policy.byKind[kind] : undefined) ?? policy.default;
}
