import { DurableObject } from "cloudflare:workers";
import { subjectObject } from "../durable/objects.ts";
import type {
  Allowance,
  Amounts,
  RegistrationResult,
  ReservationResult,
  SocketRegistration,
} from "../protocol/rpc.ts";
import type { EarlierSockets } from "./storage/earlier-sockets.ts";

/** The parts of the tenant that serve the calls of the previous release. */
export type EarlierParts = {
  readonly sockets: EarlierSockets;
  readonly createTables: () => void;
  readonly hasTables: () => boolean;
  readonly isRefused: (registration: SocketRegistration) => boolean;
};

/**
 * The calls that Workers, connections, sessions and workspaces of the previous release make while a deployment replaces
 * them. The objects of subjects count for them as well, except their sockets. Removable one release later.
 */
export abstract class EarlierCalls extends DurableObject<Env> {
  protected abstract readonly earlier: EarlierParts;
  protected abstract readonly tenantName: string;

  registerSocket(registration: SocketRegistration): RegistrationResult {
    const { sockets, createTables, isRefused } = this.earlier;
    createTables();
    if (isRefused(registration)) return "revoked";
    sockets.put(registration, Date.now());
    return "registered";
  }

  /** A Worker of the previous release reserves a place for an object of either release. Nothing is counted here. */
  reserveSocket(id: string, subject: string): ReservationResult {
    const { sockets, hasTables } = this.earlier;
    return hasTables() && sockets.has(id, subject, Date.now()) ? "known" : "reserved";
  }

  releaseSocket(_id: string): void {
    // Nothing is kept for a reservation.
  }

  async unregisterSocket(id: string, refund?: { subject: string; unused: Allowance }): Promise<void> {
    const { sockets, hasTables } = this.earlier;
    if (hasTables()) sockets.remove(id);
    if (refund) await this.refundAllowance(refund.subject, refund.unused);
  }

  async takeSessionQuota(subject: string): Promise<boolean> {
    return subjectObject(this.env, this.tenantName, subject).takeSessionQuota();
  }

  async grantAllowance(subject: string, asked: Amounts): Promise<Allowance> {
    return subjectObject(this.env, this.tenantName, subject).grantAllowance(asked);
  }

  async refundAllowance(subject: string, unused: Allowance): Promise<void> {
    await subjectObject(this.env, this.tenantName, subject).refundAllowance(unused);
  }
}
