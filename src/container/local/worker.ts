/** The Worker with containers for a machine without containers: only `ctx.container` differs from Cloudflare. */
import { AgentContainer as CloudflareContainer } from "../agent-container.ts";
import { ProcessContainer } from "./process-container.ts";

export * from "../../worker.ts";
export { default } from "../../worker.ts";

type State = ConstructorParameters<typeof CloudflareContainer>[0];

export class AgentContainer extends CloudflareContainer {
  constructor(ctx: State, env: Env & { LOCAL_CONTAINERS: Fetcher }) {
    const container = new ProcessContainer(env.LOCAL_CONTAINERS, ctx.id.toString());
    super(Object.defineProperty(ctx, "container", { value: container }), env);
  }
}
