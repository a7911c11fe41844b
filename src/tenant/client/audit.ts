/** What is done with rights that not everybody has. */
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

/** One such act. `detail` is for people to read and has no secrets. */
export type Act = {
  kind: AuditKind;
  subject: string;
  workspace?: string | undefined;
  session?: string | undefined;
  detail?: Readonly<Record<string, string | number | boolean | null | undefined>>;
};

/** Notes an act, for its tenant and for whoever follows the logs. It has happened: this fails for nobody. */
export async function audit(env: Env, tenant: string, act: Act): Promise<void> {
  console.log(JSON.stringify({ audit: act.kind, tenant, ...act, kind: undefined }));
  try {
    await env.TENANT_DO.getByName(tenant).record(act);
  } catch (error) {
    console.error("audit not recorded", { tenant, kind: act.kind, error: String(error) });
  }
}
