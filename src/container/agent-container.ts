import { Container, type StopParams } from "@cloudflare/containers";
import { callObject } from "../durable/object-call.ts";
import { workspaceObject } from "../durable/objects.ts";
import type { HostOrder, HostStarter } from "../protocol/rpc.ts";

/** The stored part of an order: the workspace to report to. The environment is not stored, because it has the token. */
type Order = Pick<HostOrder, "tenant" | "workspace" | "startNumber">;

/** Earlier builds stored the start number as `life`. */
type OldOrder = Omit<Order, "startNumber"> & { life: number };

const ORDER = "order";

/**
 * The container of one workspace. Its host dials out to the gateway, so the container has no open port and this object
 * sees no traffic. Only the workspace knows whether the container is in use, and decides when it starts and ends.
 */
export class AgentContainer extends Container<Env> implements HostStarter {
  /** The interval of asking the workspace whether it still wants the container, in case the workspace failed to end it. */
  override sleepAfter = "10m";
  override enableInternet = true;

  async wake({ env: envVars, ...order }: HostOrder): Promise<void> {
    await this.ctx.storage.put<Order>(ORDER, order);
    // Not startAndWaitForPorts: the container has no port to wait for.
    await this.start({ envVars });
  }

  async drain(): Promise<boolean> {
    if (!this.ctx.container?.running) return false;
    await this.stop("SIGTERM");
    return true;
  }

  async end(): Promise<boolean> {
    if (!this.ctx.container?.running) return false;
    await this.destroy();
    return true;
  }

  /** The platform calls this again until it succeeds. */
  override async onStop({ exitCode }: StopParams): Promise<void> {
    await this.#report(`the container ended with exit code ${exitCode}`);
  }

  /** The container did not start, or ended without an exit code. */
  override async onError(error: unknown): Promise<void> {
    await this.#report(error instanceof Error ? error.message : String(error));
  }

  /** Ends the container unless the workspace still wants it. */
  override async onActivityExpired(): Promise<void> {
    const order = await this.#order();
    const isWanted =
      order !== undefined &&
      (await callObject(
        () => this.#workspaceOf(order),
        (workspace) => workspace.isHostWanted(order.startNumber),
      ));
    if (!isWanted) await this.stop("SIGTERM");
  }

  async #report(reason: string): Promise<void> {
    const order = await this.#order();
    if (!order) return;
    await callObject(
      () => this.#workspaceOf(order),
      (workspace) => workspace.hostEnded(order.startNumber, reason),
    );
  }

  async #order(): Promise<Order | undefined> {
    const order = await this.ctx.storage.get<Order | OldOrder>(ORDER);
    return order && "life" in order ? { ...order, startNumber: order.life } : order;
  }

  #workspaceOf({ tenant, workspace }: Order) {
    return workspaceObject(this.env, tenant, workspace);
  }
}
