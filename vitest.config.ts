import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { exportJWK, generateKeyPair } from "jose";
import { defineConfig } from "vitest/config";

/** Tests inside workerd sign their own tokens with a key made for this run. */
async function testKeys() {
  const { publicKey, privateKey } = await generateKeyPair("EdDSA", { extractable: true });
  return {
    AUTH_JWKS: JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), alg: "EdDSA", kid: "test" }] }),
    SECRETS_KEY: Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url"),
    TEST_PRIVATE_KEY: JSON.stringify(await exportJWK(privateKey)),
  };
}

/** How the fuzz tests inside workerd are run. */
const { FUZZ_SEED, FUZZ_FIELDS } = process.env;
const fuzz = { ...(FUZZ_SEED && { FUZZ_SEED }), ...(FUZZ_FIELDS && { FUZZ_FIELDS }) };

/** Whole systems mostly wait, so even the smallest machine has room for two at a time. */
const WORKERS = 2;

/** Three layers: pure code in plain Node, the Worker and its objects inside workerd, whole systems of real processes. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          maxWorkers: WORKERS,
          include: ["test/unit/**/*.test.ts"],
          // Pure code leaves nothing behind, so files share a worker and its modules: half of the time would be imports.
          pool: "threads",
          isolate: false,
          // Properties are tried many times, and machines are busy.
          testTimeout: 30_000,
        },
      },
      {
        plugins: [
          cloudflareTest(async () => ({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              bindings: {
                TEST_MIGRATIONS: await readD1Migrations("./migrations"),
                ...(await testKeys()),
                ...fuzz,
              },
            },
          })),
        ],
        test: {
          name: "workerd",
          maxWorkers: WORKERS,
          include: ["test/workerd/**/*.test.ts"],
          setupFiles: ["test/workerd/setup.ts"],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          setupFiles: ["test/e2e/setup.ts"],
          // Each file runs whole systems, so they run after the other projects and two at a time.
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
