import { env } from "cloudflare:workers";
import { onTestFinished } from "vitest";

/** The methods of a bucket that a test changes. Each one gets the real bucket. */
type Changes = {
  readonly [Method in "get" | "put" | "delete" | "list"]?: (
    bucket: R2Bucket,
    ...args: Parameters<R2Bucket[Method]>
  ) => Promise<unknown>;
};

/**
 * Puts the real bucket with other methods in the place of the archive, until the end of the test. A session takes its
 * bucket when it is loaded, so a test evicts the session afterwards.
 */
export function changeArchive(changes: Changes): void {
  const real = env.ARCHIVE as R2Bucket;
  const changed = new Proxy(real, {
    get(target, name) {
      const change = changes[name as keyof Changes] as
        | ((bucket: R2Bucket, ...args: unknown[]) => Promise<unknown>)
        | undefined;
      if (change) return (...args: unknown[]) => change(real, ...args);
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  env.ARCHIVE = changed;
  onTestFinished(() => {
    env.ARCHIVE = real;
  });
}

/** Lets the first `count` reads of objects end together, in the order of their calls. Later reads run freely. */
export function pairReads(count = 2): void {
  const waiting: (() => void)[] = [];
  let begun = 0;
  changeArchive({
    get: async (bucket, key) => {
      begun += 1;
      const isHeld = begun <= count;
      const object = await bucket.get(key);
      if (!isHeld || !object) return object;
      const bytes = await object.arrayBuffer();
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        if (waiting.length === count) for (const release of waiting) release();
      });
      const { body } = new Response(bytes);
      return { body, text: () => new Response(bytes).text() };
    },
  });
}
