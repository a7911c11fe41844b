/** Bindings of wrangler.toml. */
interface Env {
  ACP_SESSION_DO: DurableObjectNamespace<import("./session/acp-session.ts").AcpSession>;
  WORKSPACE_STATE_DO: DurableObjectNamespace<import("./workspace/workspace-state.ts").WorkspaceState>;
  ACP_CONNECTION_DO: DurableObjectNamespace<import("./connection/acp-connection.ts").AcpConnection>;
  TENANT_DO: DurableObjectNamespace<import("./tenant/tenant-state.ts").TenantState>;
  INDEX: D1Database;
  /** Where old parts of long histories go; optional. */
  ARCHIVE?: R2Bucket;
  /** Who may sign tokens: a JSON array, see src/auth/issuers.ts. */
  AUTH_ISSUERS?: string;
  /** One issuer in short: its name, its audience and a JSON Web Key Set with its public keys. */
  AUTH_ISSUER: string;
  AUTH_AUDIENCE: string;
  AUTH_JWKS: string;
  /** Seconds that its clock may differ from ours. */
  AUTH_CLOCK_SKEW?: string;
  /**
   * Encrypts the secrets of workspaces, and is what the key of answer links is made from: 32 random bytes in base64url.
   * Without it there are neither.
   */
  SECRETS_KEY?: string;
  /** Starts containers; only in the environment `containers` of wrangler.toml, as is HOST_SIGNING_KEY. */
  AGENT_CONTAINER?: DurableObjectNamespace<
    import("./protocol/rpc.ts").HostStarter & Rpc.DurableObjectBranded
  >;
  /** Where this gateway is found, by hosts in containers and by those who follow links in messages of webhooks. */
  PUBLIC_URL?: string;
  /** Private key, as a JSON Web Key, that signs their tokens; its public half is in AUTH_JWKS. */
  HOST_SIGNING_KEY?: string;
  /** Origins of browsers' pages, besides the gateway's own, that may use it: names or patterns. */
  ALLOWED_ORIGINS?: string;
  /** Limits requests per address and per subject; optional. */
  RATE_LIMITER?: RateLimit;
  /** Overrides of src/protocol/limits.ts as a JSON object. */
  LIMITS?: string;
}

declare namespace Cloudflare {
  interface Env extends globalThis.Env {}
}
