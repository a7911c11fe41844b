/**
 * When the tenants have last answered in this isolate, so that their reports of revocations can be relied on.
 *
 * A tenant reports revocations while it runs this release. After a rollback and the next deploy, its storage may hold
 * changes that nobody has reported, and nothing but a call wakes the tenant to report them. So a subject's object does
 * not rely on a known token before somebody in its isolate has heard from the tenant lately.
 */
const contacts = new Map<string, number>();

export function isInContact(tenant: string): boolean {
  return (contacts.get(tenant) ?? 0) > Date.now();
}

export function noteContact(tenant: string): void {
  put(tenant, Date.now() + CONTACT_MS);
}

/** The tenant does not respond now: it is asked again soon, and not for every check. */
export function noteSilence(tenant: string): void {
  put(tenant, Date.now() + SILENCE_MS);
}

function put(tenant: string, until: number): void {
  if (contacts.size >= MAX_TENANTS) contacts.clear();
  contacts.set(tenant, until);
}

/** A deploy in parts may move a tenant to the previous release and back while this isolate goes on. */
const CONTACT_MS = 10 * 60_000;
const SILENCE_MS = 10_000;
const MAX_TENANTS = 10_000;
