/** Members of an opening that a client which loads or resumes a session may bring along. */
export const BROUGHT_MEMBERS = ["mcpServers", "additionalDirectories"] as const;
export type BroughtMember = (typeof BROUGHT_MEMBERS)[number];

/** The newest `session/load` or `session/resume` that brought each member. */
export type BroughtMembers = { [Member in BroughtMember]?: number };
