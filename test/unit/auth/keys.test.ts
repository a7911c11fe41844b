import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWK, jwtVerify, SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { KeysUnavailable, RemoteKeys } from "../../../src/auth/keys.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";

/** An issuer as a client sees it: an address that serves keys while it is up. */
class Issuer {
  readonly #server: Server;
  keys: JWK[] = [];
  up = true;
  asked = 0;

  constructor() {
    this.#server = createServer((_request, response) => {
      this.asked += 1;
      response.statusCode = this.up ? 200 : 500;
      response.end(this.up ? JSON.stringify({ keys: this.keys }) : "away");
    });
  }

  async listen(): Promise<URL> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/keys`);
  }

  /** Publishes a new key and signs a token with it. */
  async rotate(kid: string): Promise<string> {
    const { publicKey, privateKey } = await generateKeyPair("EdDSA", { extractable: true });
    this.keys = [{ ...(await exportJWK(publicKey)), kid, alg: "EdDSA" }];
    return new SignJWT({}).setProtectedHeader({ alg: "EdDSA", kid }).sign(privateKey);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

let issuer: Issuer;
let keys: RemoteKeys;

beforeEach(async () => {
  issuer = new Issuer();
  keys = new RemoteKeys(await issuer.listen(), DEFAULT_LIMITS);
  vi.spyOn(console, "error").mockImplementation(() => {});
  vi.useFakeTimers({ toFake: ["Date"] });
});

afterEach(() => {
  issuer.close();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const isGood = (token: string) =>
  jwtVerify(token, keys.find, { algorithms: ["EdDSA"] }).then(
    () => true,
    (error) => {
      if (error instanceof KeysUnavailable) throw error;
      return false;
    },
  );

const pass = (ms: number) => vi.setSystemTime(Date.now() + ms);

describe("the keys an issuer publishes", () => {
  test("are fetched once for several tokens", async () => {
    const token = await issuer.rotate("a");
    expect([await isGood(token), await isGood(token)]).toEqual([true, true]);
    expect(issuer.asked).toBe(1);
  });

  test("change without a restart", async () => {
    const old = await issuer.rotate("a");
    expect(await isGood(old)).toBe(true);
    const fresh = await issuer.rotate("b");
    pass(DEFAULT_LIMITS.jwksCooldownMs);
    expect(await isGood(fresh)).toBe(true);
    expect(await isGood(old)).toBe(false);
  });

  test("are not fetched again and again for a key id nobody has", async () => {
    await issuer.rotate("a");
    const stranger = await issuer.rotate("b");
    await issuer.rotate("a");
    for (let n = 0; n < 5; n++) expect(await isGood(stranger)).toBe(false);
    expect(issuer.asked).toBe(1);
  });

  test("stay valid for a day while the issuer is unreachable, and no longer", async () => {
    const token = await issuer.rotate("a");
    await isGood(token);
    issuer.up = false;
    pass(DEFAULT_LIMITS.jwksStaleMs - 1);
    expect(await isGood(token)).toBe(true);
    pass(1);
    await expect(isGood(token)).rejects.toThrow(KeysUnavailable);
    issuer.up = true;
    pass(DEFAULT_LIMITS.jwksRetryMs);
    expect(await isGood(token)).toBe(true);
  });

  test("are not asked for at each token while the issuer is unreachable", async () => {
    const token = await issuer.rotate("a");
    await isGood(token);
    issuer.up = false;
    pass(100 * DEFAULT_LIMITS.jwksMaxAgeMs);
    expect(await isGood(token)).toBe(true);
    expect(await isGood(token)).toBe(true);
    expect(issuer.asked).toBe(2);
  });

  test("are dropped when the issuer answers and has them no more", async () => {
    const token = await issuer.rotate("a");
    await isGood(token);
    await issuer.rotate("b");
    pass(DEFAULT_LIMITS.jwksMaxAgeMs);
    expect(await isGood(token)).toBe(false);
  });

  test("let nobody in before they are known, and are fetched when the issuer is back", async () => {
    const token = await issuer.rotate("a");
    issuer.up = false;
    await expect(isGood(token)).rejects.toThrow(KeysUnavailable);
    await expect(isGood(token)).rejects.toThrow(KeysUnavailable);
    expect(issuer.asked).toBe(1);
    issuer.up = true;
    pass(DEFAULT_LIMITS.jwksRetryMs);
    expect(await isGood(token)).toBe(true);
  });

  test("are waited for up to a limit", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    keys = new RemoteKeys(new URL(`http://127.0.0.1:${port}/`), { ...DEFAULT_LIMITS, jwksTimeoutMs: 50 });
    await expect(isGood(await issuer.rotate("a"))).rejects.toThrow(KeysUnavailable);
    silent.close();
    silent.closeAllConnections();
  });
});
