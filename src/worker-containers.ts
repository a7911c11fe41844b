/** The Worker with containers, for the environment `containers` of wrangler.toml. */
export { AgentContainer } from "./container/agent-container.ts";
export * from "./worker.ts";
export { default } from "./worker.ts";
