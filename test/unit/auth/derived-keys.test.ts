import { describe, expect, test } from "vitest";
import { encryptionKeys, SecretsKeyError, signingKeys } from "../../../src/auth/derived-keys.ts";

const root = (byte: number) => Buffer.alloc(32, byte).toString("base64url");
const TEXT = new TextEncoder().encode("text");

async function signature(key: CryptoKey | undefined): Promise<string> {
  return Buffer.from(await crypto.subtle.sign("HMAC", key as CryptoKey, TEXT)).toString("hex");
}

describe("derived keys", () => {
  test("are none without a root key", async () => {
    expect(await signingKeys({}, "a")).toEqual([]);
    expect(await signingKeys({ SECRETS_KEY: "", SECRETS_KEY_PREVIOUS: root(1) }, "a")).toEqual([]);
  });

  test("come newest first, one for each root key", async () => {
    const vars = { SECRETS_KEY: root(2), SECRETS_KEY_PREVIOUS: `${root(1)}\n ${root(3)} ` };
    const keys = await signingKeys(vars, "a");
    expect(keys).toHaveLength(3);
    expect(await signature(keys[1])).toBe(
      await signature((await signingKeys({ SECRETS_KEY: root(1) }, "a"))[0]),
    );
  });

  test("differ by root key and by label", async () => {
    const signatures = await Promise.all(
      [
        [root(1), "a"],
        [root(1), "b"],
        [root(2), "a"],
      ].map(async ([SECRETS_KEY, label]) =>
        signature((await signingKeys({ SECRETS_KEY }, label as string))[0]),
      ),
    );
    expect(new Set(signatures).size).toBe(3);
  });

  test("have an id that depends on the root key alone", async () => {
    const vars = { SECRETS_KEY: root(2), SECRETS_KEY_PREVIOUS: root(1) };
    const ids = async (label: string) => (await encryptionKeys(vars, label)).map(({ id }) => id);
    expect(await ids("a")).toEqual(await ids("b"));
    expect(new Set(await ids("a")).size).toBe(2);
  });

  test.each(["short", "!", Buffer.alloc(16).toString("base64url")])("refuse the root key %j", async (key) => {
    await expect(signingKeys({ SECRETS_KEY: key }, "a")).rejects.toThrow(SecretsKeyError);
    const previous = { SECRETS_KEY: root(1), SECRETS_KEY_PREVIOUS: key };
    await expect(signingKeys(previous, "a")).rejects.toThrow(SecretsKeyError);
  });
});
