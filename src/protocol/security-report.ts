/** A point of a deployment's security, as `GET /api/security` and `acp-edge doctor --security` report it. */
export type SecurityFinding = {
  /** Stable, for programs. */
  id: string;
  level: "ok" | "warning" | "failed";
  message: string;
  /** How to do better. */
  hint?: string;
};

export type SecurityReport = { findings: SecurityFinding[] };
