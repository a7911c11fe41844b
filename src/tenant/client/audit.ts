import { callObject } from "../../durable/object-call.ts";
import { tenantObject } from "../../durable/objects.ts";
import { clipMessage } from "../../protocol/clipped-text.ts";

/** Acts that need rights which not every caller has. */
export type AuditKind =
  | "token.refused"
  | "permission.answered"
  | "question.answered"
  | "session.deleted"
  | "workspace.changed"
  | "index.rebuilt"
  | "secret.set"
  | "secret.deleted"
  | "revocation.made"
  | "revocation.lifted"
  | "share.made"
  | "share.revoked"
  | "link.made"
  | "webhook.made"
  | "webhook.adopted"
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

/**
 * Records an act with its tenant and in the logs. The act has already happened, so a failure here is only logged.
 * A tenant that is reset just after it has recorded the act records it twice: an entry too many misleads less than none.
 */
export async function audit(env: Env, tenant: string, whole: Act): Promise<void> {
  const act = clipped(whole);
  console.log(JSON.stringify({ audit: act.kind, tenant, ...act, kind: undefined }));
  try {
    await callObject(
      () => tenantObject(env, tenant),
      (object) => object.recordAct(act),
    );
  } catch (error) {
    console.error("audit not recorded", { tenant, kind: act.kind, error: String(error) });
  }
}

/** Details may quote clients, agents and hosts at any length. */
function clipped({ detail = {}, ...act }: Act): Act {
  const entries = Object.entries(detail).map(([name, value]) => [
    name,
    typeof value === "string" ? clipMessage(value) : value,
  ]);
  return { ...act, ...(entries.length > 0 && { detail: Object.fromEntries(entries) }) };
}
