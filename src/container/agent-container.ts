import { Container, type StopParams } from "@cloudflare/containers";
import { workspaceObject } from "../durable/object-names.ts";
import type { HostOrder, HostStarter } from "../protocol/rpc.ts";

/** What is remembered of the order: whom to tell. Not the environment, which has the token in it. */
type Order = Pick<HostOrder, "tenant" | "workspace" | "life">;

const ORDER = "order";

/**
 * The container of one workspace. Its host dials in, so no port is open, and nothing that passes through here says
 * whether it is in use: the workspace knows, and decides when it starts and ends.
 */
export class AgentContainer extends Container<Env> implements HostStarter {
  /** How often the workspace is asked whether it still wants the container, should it have forgotten to end it. */
  override sleepAfter = "10m";
  override enableInternet = true;

  async wake({ env: envVars, ...order }: HostOrder): Promise<void> {
    await this.ctx.storage.put<Order>(ORDER, order);
    // Not startAndWaitForPorts: there is no port to wait for.
    await this.start({ envVars });
  }

  async sleep(now: boolean): Promise<boolean> {
    if (!this.ctx.container?.running) return false;
    if (now) await this.destroy();
    else await this.stop("SIGTERM");
    return true;
  }

  /** Called again until it succeeds. */
  override async onStop({ exitCode }: StopParams): Promise<void> {
    await this.#tell(`the container ended with exit code ${exitCode}`);
  }

  /** It did not start, or went in a way that has no exit code. */
  override async onError(error: unknown): Promise<void> {
    await this.#tell(error instanceof Error ? error.message : String(error));
  }

  /** A container nobody wants any more ends; any other goes on for as long again. */
  override async onActivityExpired(): Promise<void> {
    const order = await this.#order();
    if (!order || !(await this.#workspaceOf(order).isHostWanted(order.life))) await this.stop("SIGTERM");
  }

  async #tell(reason: string): Promise<void> {
    const order = await this.#order();
    if (order) await this.#workspaceOf(order).hostEnded(order.life, reason);
  }

  #order(): Promise<Order | undefined> {
    return this.ctx.storage.get<Order>(ORDER);
  }

  #workspaceOf({ tenant, workspace }: Order) {
    return workspaceObject(this.env, tenant, workspace);
  }
}
