import { callObject } from "../../durable/object-call.ts";
import { tenantObject } from "../../durable/objects.ts";
import type { WorkspaceIdentity, WorkspaceStore } from "../store.ts";
import { type IssuedToken, mintHostToken } from "./minted-token.ts";
import { CONTAINER_HOST } from "./starter.ts";

/**
 * The tokens that the workspace has issued to the host in its container. Each start and each renewal has a token of its
 * own. The tokens of a container that has ended end with it: nobody else may use them until they expire.
 */
export class IssuedTokens {
  readonly #env: Env;
  readonly #store: WorkspaceStore;
  readonly #lifeMs: number;

  constructor(env: Env, store: WorkspaceStore, lifeMs: number) {
    this.#env = env;
    this.#store = store;
    this.#lifeMs = lifeMs;
  }

  /** The tokens that are valid, the newest last. */
  list(): IssuedToken[] {
    return this.#stored().filter(({ isEnding }) => !isEnding);
  }

  has(jti: string | undefined): boolean {
    return jti !== undefined && this.list().some((issued) => issued.jti === jti);
  }

  async issue(identity: WorkspaceIdentity): Promise<string> {
    const place = { ...identity, host: CONTAINER_HOST };
    const { token, jti, expires } = await mintHostToken(this.#env.HOST_SIGNING_KEY, place, this.#lifeMs);
    this.#save([...this.#stored(), { jti, expires }]);
    return token;
  }

  /** The container has ended: its tokens are of no more use to anybody. */
  markEnding(): void {
    this.#save(this.#stored().map((token) => ({ ...token, isEnding: true })));
  }

  /** Has the tenant end the tokens that are marked. A token is forgotten when the tenant has confirmed its end. */
  async end({ tenant, workspace }: WorkspaceIdentity): Promise<void> {
    const ending = this.#stored().filter(({ isEnding }) => isEnding);
    if (ending.length === 0) return;
    try {
      await callObject(
        () => tenantObject(this.#env, tenant),
        (object) => object.endHostTokens(ending),
      );
    } catch (error) {
      console.error("tokens of a container not ended", { tenant, workspace, error: String(error) });
      throw error;
    }
    const ended = new Set(ending.map(({ jti }) => jti));
    this.#save(this.#stored().filter(({ jti }) => !ended.has(jti)));
  }

  #stored(): StoredToken[] {
    const issued = this.#store.get<StoredToken[]>(ISSUED) ?? [];
    return issued.filter(({ expires }) => expires > Date.now());
  }

  #save(tokens: StoredToken[]): void {
    this.#store.set(ISSUED, tokens);
  }
}

/** `isEnding`: the tenant has not confirmed yet that the token has ended. */
type StoredToken = IssuedToken & { isEnding?: boolean };

/** The name of a row of the table `setting`. */
const ISSUED = "container-tokens";
