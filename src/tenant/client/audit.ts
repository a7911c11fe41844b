/** Acts that need rights which not every caller has. */
export type AuditKind =
  | "token.refused"
  | "permission.answered"
  | "session.deleted"
  | "workspace.changed"
  | "secret.set"
  | "secret.deleted"
  | "revocation.made"
  | "revocation.lifted"
  | "share.made"
  | "share.revoked"
  | "link.made"
  | "webhook.made"
  | "webhook.deleted"
  | "webhook.failed"
  | "host.joined"
  | "host.left"
  | "host.refused";

/** One act. `detail` is for people to read and contains no secrets. */
export type Act = {
  kind: AuditKind;
  subject: string;
  workspace?: string | undefined;
  session?: string | undefined;
  detail?: Readonly<Record<string, string | number | boolean | null | undefined>>;
};

/** Records an act with its tenant and in the logs. The act has already happened, so a failure here is only logged. */
export async function audit(env: Env, tenant: string, act: Act): Promise<void> {
  console.log(JSON.stringify({ audit: act.kind, tenant, ...act, kind: undefined }));
  try {
    await env.TENANT_DO.getByName(tenant).recordAct(act);
  } catch (error) {
    console.error("audit not recorded", { tenant, kind: act.kind, error: String(error) });
  }
}
