/** The bindings and variables of wrangler.toml. */
interface Env {
  ACP_SESSION_DO: DurableObjectNamespace<import("./session/acp-session.ts").AcpSession>;
  WORKSPACE_STATE_DO: DurableObjectNamespace<import("./workspace/workspace-state.ts").WorkspaceState>;
  ACP_CONNECTION_DO: DurableObjectNamespace<import("./connection/acp-connection.ts").AcpConnection>;
  TENANT_DO: DurableObjectNamespace<import("./tenant/tenant-state.ts").TenantState>;
  SUBJECT_DO: DurableObjectNamespace<import("./tenant/subject/subject-state.ts").SubjectState>;
  INDEX: D1Database;
  /** Keeps the old parts of long logs; optional. */
  ARCHIVE?: R2Bucket;
  /** The issuers of tokens as a JSON array, see src/auth/issuers.ts. */
  AUTH_ISSUERS?: string;
  /** A single issuer in short form: its name, its audience, and its public keys as a JSON Web Key Set. */
  AUTH_ISSUER: string;
  AUTH_AUDIENCE: string;
  AUTH_JWKS: string;
  /** Seconds by which the single issuer's clock may differ from ours. */
  AUTH_CLOCK_SKEW?: string;
  /**
   * 32 random bytes in base64url. The keys that encrypt the secrets of workspaces and sign answer links are derived from
   * them, see src/auth/derived-keys.ts. Without this variable the gateway has neither secrets nor links.
   */
  SECRETS_KEY?: string;
  /** The keys that SECRETS_KEY replaces, separated by spaces. What was made under them stays valid. */
  SECRETS_KEY_PREVIOUS?: string;
  /** Starts containers. Only the environment `containers` of wrangler.toml has this binding and HOST_SIGNING_KEY. */
  AGENT_CONTAINER?: DurableObjectNamespace<
    import("./protocol/rpc.ts").HostStarter & Rpc.DurableObjectBranded
  >;
  /** The gateway's own address, for hosts in containers and for the links in messages of webhooks. */
  PUBLIC_URL?: string;
  /** The private JSON Web Key that signs the tokens of hosts in containers and nothing else, see auth/host-issuer.ts. */
  HOST_SIGNING_KEY?: string;
  /** Origins, or patterns of origins, whose pages may use the gateway besides its own page. */
  ALLOWED_ORIGINS?: string;
  /** Where webhooks may lead: `public` (the default), `loopback` too, or `any` address, see docs/webhooks.md. */
  WEBHOOK_TARGETS?: string;
  /** Limits requests per address and per subject; optional. */
  RATE_LIMITER?: RateLimit;
  /** Where the objects of tenants are, as a JSON object, see src/durable/regions.ts. */
  REGIONS?: string;
  /** Overrides of src/protocol/limits.ts as a JSON object. */
  LIMITS?: string;
}

declare namespace Cloudflare {
  interface Env extends globalThis.Env {}
}
