/** Prices and limits of Cloudflare in US dollars, as documented on the day of `AS_OF`. */
export const AS_OF = "2026-11-17";

export const SOURCES = {
  objects: "https://developers.cloudflare.com/durable-objects/platform/pricing/",
  objectLimits: "https://developers.cloudflare.com/durable-objects/platform/limits/",
  objectRate: "https://developers.cloudflare.com/durable-objects/best-practices/rules-of-durable-objects/",
  d1: "https://developers.cloudflare.com/d1/platform/limits/",
  workers: "https://developers.cloudflare.com/workers/platform/pricing/",
} as const;

type Price = { readonly included: number; readonly perMillion: number };

/** The plan Workers Paid: amounts per month, with the part that the plan includes. D1 has the same prices for rows. */
export const PRICES = {
  plan: 5,
  requests: { included: 1e6, perMillion: 0.15 },
  /** Gigabyte-seconds of objects that are awake. */
  duration: { included: 400_000, perMillion: 12.5 },
  rowsWritten: { included: 50e6, perMillion: 1 },
  workerRequests: { included: 10e6, perMillion: 0.3 },
  /** Per gigabyte and month. */
  storage: { included: 5, perMillion: 0.2e6 },
} as const satisfies Record<string, number | Price>;

export type PriceName = Exclude<keyof typeof PRICES, "plan">;

export const PLATFORM = {
  /** Incoming WebSocket messages that are billed as one request. */
  messagesPerRequest: 20,
  objectGigabytes: 0.128,
  /** Requests a second of one object that writes: the documentation says 200 to 500. */
  requestsPerSecond: 500,
  d1Gigabytes: 10,
  /** Writes a second of one D1 database: it runs one statement at a time, and a small one takes about a millisecond. */
  d1WritesPerSecond: 1000,
  /** The plan Workers Free. */
  freeRowsPerDay: 100_000,
} as const;

/** How long an object is awake for a call or a message. Estimated: only a deployed gateway can measure it. */
export const AWAKE_SECONDS = 0.015;

/** A session's row of the index with its share of the indexes. Estimated. */
export const INDEX_BYTES = 1000;
