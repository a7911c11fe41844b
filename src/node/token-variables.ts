/** Variables whose value is a token. Those that name a file, a command or a descriptor are none. */
const TOKENS = ["ACP_EDGE_TOKEN", "ACP_EDGE_HOST_TOKEN"];

/** The environment for a child process that has no use for the tokens of this process. */
export function withoutTokens(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !TOKENS.includes(name)));
}
