/** Bindings of wrangler.toml. */
interface Env {
  ACP_SESSION_DO: DurableObjectNamespace<import("./session/session.ts").AcpSession>;
  WORKSPACE_STATE_DO: DurableObjectNamespace<import("./workspace/workspace.ts").WorkspaceState>;
  ACP_CONNECTION_DO: DurableObjectNamespace<import("./connection/connection.ts").AcpConnection>;
  INDEX: D1Database;
  /** Where old parts of long histories go; optional. */
  ARCHIVE?: R2Bucket;
  AUTH_ISSUER: string;
  AUTH_AUDIENCE: string;
  /** JSON Web Key Set with the public keys that may sign tokens. */
  AUTH_JWKS: string;
  /** Encrypts the secrets of workspaces: 32 random bytes in base64url. Without it none can be stored. */
  SECRETS_KEY?: string;
  /** Starts containers; only in the environment `containers` of wrangler.toml, as are the next two. */
  AGENT_CONTAINER?: DurableObjectNamespace<
    import("./container/starter.ts").HostStarter & Rpc.DurableObjectBranded
  >;
  /** Where the hosts in containers find this gateway. */
  PUBLIC_URL?: string;
  /** Private key, as a JSON Web Key, that signs their tokens; its public half is in AUTH_JWKS. */
  HOST_SIGNING_KEY?: string;
  /** Overrides of src/protocol/limits.ts as a JSON object. */
  LIMITS?: string;
}

declare namespace Cloudflare {
  interface Env extends globalThis.Env {}
}
