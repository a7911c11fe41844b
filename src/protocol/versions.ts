/**
 * The versions of the forms that one release writes and another reads: objects of adjacent releases talk to each other
 * during a deploy, and a rollback reads what the newer release has left. A form changes by additions: a reader ignores
 * fields that it does not know, and does without fields that are absent. A version is raised only when a reader of the
 * version before would misread the form, see docs/decisions/0006-releases-side-by-side.md.
 *
 * A change takes two releases. The first one raises `NEWEST_READ` and reads both forms; the second one raises the
 * version written. A deploy or a rollback by one release then never meets a form that it cannot read.
 */
export const NEWEST_READ = { attachment: 1, row: 1, rpc: 1 } as const satisfies Record<string, number>;

/** The versions that this release writes. Rows of the log are of version 1 and carry no number. */
export const ATTACHMENT_VERSION = 1;
export const RPC_VERSION = 1;

/** A value with the version of its form. A value without one is of version 1, like everything that release 0.1.0 wrote. */
export type Versioned = { readonly v?: number | undefined };

/** This release cannot read a value, and leaves it as it is. */
export class NewerVersion extends Error {
  constructor(what: string, version: number, known: number) {
    super(`${what} is of version ${version}, and this release of the gateway reads up to version ${known}`);
    this.name = "NewerVersion";
  }
}

/** The version of a value whose form is not known yet. */
export function versionOf(value: unknown): number {
  const v = typeof value === "object" && value !== null && "v" in value ? value.v : undefined;
  return typeof v === "number" ? v : 1;
}

/** A value from another object. Throws if it is of a newer version: its sender tries again, and finds newer code here. */
export function readable<Value extends Versioned>(value: Value, what: string): Value {
  const { v = 1 } = value;
  if (v > NEWEST_READ.rpc) throw new NewerVersion(what, v, NEWEST_READ.rpc);
  return value;
}
