import { type Caller, isHost, isReader, mayAdminister, mayUseWorkspace, roleOf } from "../protocol/caller.ts";
import type { SessionState } from "./core/state/state.ts";

/** The owner of a session. The log names the owner too; this copy is known without reading the log. */
export type Owner = { readonly tenant: string; readonly workspace: string; readonly sessionId: string };

/** The part of the object's key-value storage that access needs. */
type AccessStore = {
  get<T>(key: string): T | undefined;
  put<T>(key: string, value: T): void;
  delete(key: string): boolean;
};

type Opener = { readonly connection: string; readonly caller: Caller; readonly workspace: string };
type Openers = { isOwnedBy(connection: string, subject: string): boolean };

/**
 * Decides who may approach a session. `AcpSession` asks before it reads anything of the session, so a refusal takes as
 * long as a request for a session that does not exist. Access is no part of the history.
 */
export class Access {
  readonly #store: AccessStore;
  #owner: Owner | undefined;
  #isRevoked: boolean;

  constructor(store: AccessStore) {
    this.#store = store;
    this.#owner = store.get<Owner>(OWNER);
    this.#isRevoked = store.get(REVOKED) === true;
  }

  /** Undefined while no session exists in this object. */
  get owner(): Owner | undefined {
    return this.#owner;
  }

  get isRevoked(): boolean {
    return this.#isRevoked;
  }

  /** The owner of a session never changes. */
  setOwnerOnce({ identity, sessionId }: Pick<SessionState, "identity" | "sessionId">): void {
    if (!identity || this.#owner) return;
    const { tenant, workspace } = identity;
    this.#owner = { tenant, workspace, sessionId };
    this.#store.put(OWNER, this.#owner);
  }

  /** The session and all its storage were deleted. */
  forget(): void {
    this.#owner = undefined;
    this.#isRevoked = false;
  }

  /** The session is deleted, but its storage is not yet. */
  erase(): void {
    this.forget();
    this.#store.delete(OWNER);
    this.#store.delete(REVOKED);
  }

  revoke(): void {
    this.#isRevoked = true;
    this.#store.put(REVOKED, true);
  }

  restore(): void {
    this.#isRevoked = false;
    this.#store.delete(REVOKED);
  }

  /** Whether a session exists here in a workspace of the caller. A caller with a share link reaches one session only. */
  isWithinReach(caller: Caller): boolean {
    const owner = this.#owner;
    if (!owner || (caller.session !== undefined && caller.session !== owner.sessionId)) return false;
    return owner.tenant === caller.tenant && mayUseWorkspace(caller, owner.workspace);
  }

  /** A revoked session is visible to administrators only. */
  mayRead(caller: Caller): boolean {
    const isShut = this.#isRevoked && !this.mayAdminister(caller);
    return isReader(caller) && this.isWithinReach(caller) && !isShut;
  }

  /** Whether the caller may revoke and restore the access to the session. */
  mayAdminister(caller: Caller): boolean {
    const owner = this.#owner;
    return owner !== undefined && owner.tenant === caller.tenant && mayAdminister(caller, owner.workspace);
  }

  maySteer(caller: Caller): boolean {
    return roleOf(caller) === "controller" && this.mayRead(caller);
  }

  /** Whether the session was made for this client, which may go on opening it: all of these are the opener's. */
  isOpener(clients: Openers, { connection, caller, workspace }: Opener): boolean {
    const owner = this.#owner;
    const isSame = owner?.tenant === caller.tenant && owner.workspace === workspace;
    if (!isSame || !mayOpenIn(workspace, caller) || this.#isRevoked) return false;
    return clients.isOwnedBy(connection, caller.subject);
  }

  /** Whether the caller is a host that may run the session's agent. A revoked session keeps working. */
  mayServe(caller: Caller): boolean {
    return isHost(caller) && this.isWithinReach(caller);
  }
}

/** Whether the caller may open sessions in a workspace, also by importing or forking one. */
export function mayOpenIn(workspace: string, caller: Caller): boolean {
  return roleOf(caller) === "controller" && mayUseWorkspace(caller, workspace);
}

const OWNER = "owner";
const REVOKED = "revoked";
