import { type Allowed, applyAllowList, each, members, scalars } from "./allow-list.ts";

/** The name and version of an ACP implementation. */
export const VISIBLE_IMPLEMENTATION = members(scalars("name", "title", "version"));

/** The members of an agent's answer to `initialize` that a redacted reader may see. */
export const VISIBLE_INITIALIZE_MEMBERS: Readonly<Record<string, Allowed>> = {
  protocolVersion: "scalar",
  agentCapabilities: "open",
  agentInfo: VISIBLE_IMPLEMENTATION,
  authMethods: each(members(scalars("id", "name", "description", "type"))),
};

/** An agent's answer to `initialize`, as JSON text, without the members that a redacted reader may not see. */
export function redactInitializeResult(result: string): string {
  return applyAllowList(result, members(VISIBLE_INITIALIZE_MEMBERS));
}
