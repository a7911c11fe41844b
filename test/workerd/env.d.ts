declare namespace Cloudflare {
  interface GlobalProps {
    mainModule: typeof import("../../src/worker.ts");
  }
  interface Env {
    TEST_MIGRATIONS: import("cloudflare:test").D1Migration[];
    TEST_PRIVATE_KEY: string;
    FUZZ_SEED?: string;
    FUZZ_FIELDS?: string;
  }
}
