import type { Maker } from "../../protocol/maker.ts";
import type { RevocationKind } from "../../protocol/rpc.ts";

/** The columns of a table of made things that keep the maker. */
export type MakerColumns = { by_subject: string; by_jti: string | null; by_workspace: string | null };

/** The target of a revocation. With a workspace the revocation covers only tokens that are valid there and nowhere else. */
export type RevocationTarget = { kind: RevocationKind; value: string; workspace?: string | null | undefined };

/** The condition on a table of made things by which a revocation finds those that it reaches, and its values. */
export function reachedBy({ kind, value, workspace = null }: RevocationTarget): [string, (string | null)[]] {
  switch (kind) {
    case "session":
      return ["session = ?", [value]];
    case "subject":
    case "jti":
      return [`by_${kind} = ? AND (? IS NULL OR by_workspace = ?)`, [value, workspace, workspace]];
  }
}

export function storedMaker({ by_subject, by_jti, by_workspace }: MakerColumns): Maker {
  return { subject: by_subject, jti: by_jti, workspace: by_workspace };
}
