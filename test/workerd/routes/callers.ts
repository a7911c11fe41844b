import { expect } from "vitest";
import {
  ALL_OF_A_CLIENT,
  type Claims,
  CONTROLLER,
  mint,
  mintHmac,
  mintUnsigned,
  WORKSPACE_ADMIN,
} from "../tokens.ts";
import { fetchAs, JSON_TYPE, type Place } from "./place.ts";

// ---- callers --------------------------------------------------------------------------------------------

/** Kinds of callers. `base` has the claims the route is meant for: those of a host, or of a client with every right. */
export const CALLERS = {
  none: () => undefined,
  garbage: () => "garbage",
  expired: (base) => mint({ ...base, exp: -60 }),
  "not yet valid": (base) => mint({ ...base, nbf: 60 }),
  "without an end": (base) => mint({ ...base, exp: null }),
  "wrong audience": (base) => mint({ ...base, aud: "somebody-else" }),
  "wrong issuer": (base) => mint({ ...base, iss: "somebody-else" }),
  "wrong algorithm": (base) => mintHmac(base),
  "no algorithm": (base) => mintUnsigned(base),
  "host and client": (base) => mint({ ...base, scopes: [...ALL_OF_A_CLIENT, "host"] }),
  "no scopes": (base) => mint({ ...base, scopes: [] }),
  "other tenant": (base) => mint({ ...base, tenant: "other" }),
  "other workspace": (base) => mint({ ...base, workspaces: ["elsewhere"] }),
  "revoked token": async (base) => {
    const jti = crypto.randomUUID();
    await revoke({ jti });
    return mint({ ...base, jti });
  },
  "revoked subject": async (base) => {
    const sub = crypto.randomUUID();
    await revoke({ subject: sub });
    return mint({ ...base, sub });
  },
  host: ({ workspaces }) => mint({ workspaces: workspaces ?? [], scopes: ["host"] }),
  observer: ({ workspaces }) => mint({ workspaces: workspaces ?? [], scopes: ["session:read"] }),
  controller: ({ workspaces }) => mint({ workspaces: workspaces ?? [], scopes: CONTROLLER }),
  "workspace admin": ({ workspaces }) => mint({ workspaces: workspaces ?? [], scopes: WORKSPACE_ADMIN }),
  "other workspace's admin": () => mint({ workspaces: ["elsewhere"], scopes: WORKSPACE_ADMIN }),
  // Administers the tenant and no workspace, and names none.
  "tenant admin": () => mint({ workspaces: ["elsewhere"], scopes: ["session:read", "tenant:admin"] }),
  "only workspace:admin": ({ workspaces }) =>
    mint({ workspaces: workspaces ?? [], scopes: ["workspace:admin"] }),
  "only tenant:admin": () => mint({ workspaces: ["elsewhere"], scopes: ["tenant:admin"] }),
  link: (_base, place) => linkTo(place),
  right: (base) => mint(base),
} satisfies Record<string, (base: Claims, place: Place) => Promise<string> | string | undefined>;

/** The token of a share link to the place's session. */
async function linkTo({ workspace, sessionId }: Place): Promise<string> {
  const bearer = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT });
  const body = JSON.stringify({ session: sessionId });
  const made = await fetchAs({ path: "/api/shares", method: "POST", headers: JSON_TYPE, body }, bearer);
  return ((await made.json()) as { token: string }).token;
}

async function revoke(what: object): Promise<void> {
  const bearer = await mint({ scopes: ALL_OF_A_CLIENT, sub: "admin" });
  const order = { method: "POST", headers: JSON_TYPE, body: JSON.stringify(what) };
  expect((await fetchAs({ path: "/api/revocations", ...order }, bearer)).status).toBe(201);
}

export type Kind = keyof typeof CALLERS;
export const KINDS = Object.keys(CALLERS) as Kind[];
