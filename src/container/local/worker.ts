/** The Worker with containers for a machine without containers: only `ctx.container` differs from Cloudflare. */
import { AgentContainer as CloudflareContainer } from "../agent-container.ts";
import { ProcessContainer } from "./process-container.ts";

export * from "../../worker.ts";
export { default } from "../../worker.ts";

type State = ConstructorParameters<typeof CloudflareContainer>[0];

export class AgentContainer extends CloudflareContainer {
  constructor(ctx: State, env: Env & { LOCAL_CONTAINERS: Fetcher; LOOPBACK_SECRET: string }) {
    const container = new ProcessContainer(env.LOCAL_CONTAINERS, env.LOOPBACK_SECRET, ctx.id.toString());
    super(Object.defineProperty(ctx, "container", { value: container }), env);
    // A container outlives its object. On Cloudflare a new object knows at once whether its container runs.
    void ctx.blockConcurrencyWhile(async () => {
      if (!(await container.adopt())) return;
      container.monitor().then(
        () => this.onStop({ exitCode: 0, reason: "exit" }),
        (error: unknown) => this.onError(error),
      );
    });
  }
}
