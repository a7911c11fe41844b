/** The part of `limits.ts` that bounds what a tenant and each of its subjects may have. */
export const TENANT_LIMITS = {
  /**
   * Revocations of a tenant, and those that one subject may have made. Administrators of workspaces get half of them, so
   * that they cannot keep an administrator of the tenant from revoking.
   */
  revocations: 10_000,
  revocationsPerMaker: 1_000,

  /**
   * Wait for the holders of revoked sockets and webhooks before the order is answered. Those that have not confirmed
   * by then are told again, with growing pauses, until they confirm or their tokens have expired.
   */
  revocationWaitMs: 5_000,

  /** Longest life of a share link. */
  shareSeconds: 90 * 24 * 60 * 60,

  /**
   * Share links of a tenant, to one session, and of one maker. A session has a few readers; one maker must not take
   * the room of all others.
   */
  sharesPerTenant: 10_000,
  sharesPerSession: 100,
  sharesPerSubject: 1_000,

  /** Life of a link that answers a permission request: the default, and the longest. */
  answerLinkSeconds: 24 * 60 * 60,
  answerLinkMaxSeconds: 7 * 24 * 60 * 60,
  /** Answer links per permission request. An agent may offer more options than fit into a message. */
  answerLinks: 20,
  /** Orders of answer links that one maker and all makers of a tenant have valid at a time. */
  answerLinksPerSubject: 1_000,
  answerLinksPerTenant: 10_000,

  // ---- Quotas and audit of a tenant

  /** Sockets and connections of one subject at a time. */
  socketsPerSubject: 1000,
  /**
   * A socket counts for this long without a renewal. Its holder renews the lease at about half of it, a row or two in six
   * hours; the row of a socket that was lost without a word stays for no longer.
   */
  socketLeaseMs: 12 * 60 * 60 * 1000,

  /**
   * Allowance of one subject per hour, over all its connections: opened sessions, prompts, and characters of messages
   * and (as bytes) of imports. A person never types this much, and this much harms no other subject.
   */
  sessionsPerHour: 1000,
  promptsPerHour: 10_000,
  charsPerHour: 1024 ** 3,

  /**
   * Notifications and answers up to this length may use the reserve of `charsPerHour`, which no other message may use.
   * `session/cancel` and the answer to a permission request fit, even with the longest ids.
   */
  smallChars: 4 * 1024,

  /** A connection that its subject's object refused a charge asks again no sooner than this, however many messages arrive. */
  quotaAskMs: 1_000,

  /**
   * Characters of notifications and answers that a connection lets pass while nobody can count them. They are counted
   * later. A thousand cancellations fit, and no flood does.
   */
  uncountedChars: 1024 * 1024,

  /** Entries of each kind in a tenant's audit log, and of one subject within a kind. */
  auditEntries: 10_000,
  auditEntriesPerSubject: 2_000,
  /** Refusals of one bearer's token become one audit entry per interval. */
  refusalAuditMs: 60_000,

  // ---- Calls between objects

  /**
   * An object that does not respond for this long counts as silent, and the call is made again later. An object that
   * wakes and reads a long log responds within seconds.
   */
  callMs: 10_000,

  /**
   * A connection keeps frames for a session that does not respond for this long, and sends them again. After that, the
   * client learns by its transport that they may be lost: a few restarts of an object fit into the time.
   */
  frameRetryMs: 30_000,
};
