/**
 * One call to another object by RPC. The call may run more than once, so the called method must be idempotent: numbered,
 * or a read, or setting what already holds.
 *
 * A call is tried again when the platform lost it: the object was reset (`durableObjectReset`), or the connection to it
 * broke (`retryable`). Each try has a new stub, because a stub stays broken after such an error. An overloaded object
 * is left alone: more calls would add to its load. An error that the object itself threw (`remote`) is its answer; calls
 * that the object made in turn have had their own tries.
 *
 * An object that does not respond within `timeoutMs` counts as silent: the call ends with a `SilentObject` and is not
 * tried again here. The object may still carry the call out. Every call has such an end, because the deadlines of an
 * object are served one after the other: a call without an end would hold up all of them.
 */
export async function callObject<O, R>(
  find: () => O,
  call: (object: O) => R,
  { timeoutMs = RESPONSE_MS }: { readonly timeoutMs?: number | undefined } = {},
): Promise<Awaited<R>> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await orSilent(call(find()), timeoutMs);
    } catch (error) {
      if (attempt === TRIES || !mayTryAgain(error)) throw error;
      console.warn("call to an object repeated", { attempt, error: String(error) });
      await pause(pauseMs(attempt, Math.random()));
    }
  }
}

/** An object that wakes and reads a long log responds within seconds. */
export const RESPONSE_MS = 10_000;
/** For an object that asks others in turn before it responds: it must have the time to find one of them silent. */
export const CHAIN_RESPONSE_MS = 3 * RESPONSE_MS;
/** For an object that copies a whole log before it responds. */
export const COPY_RESPONSE_MS = 5 * 60_000;

/** An object did not respond in time. Nobody knows whether it has carried the call out. */
export class SilentObject extends Error {
  constructor(ms: number) {
    super(`no response within ${ms} ms`);
    this.name = "SilentObject";
  }
}

/** Whether the platform lost the call, see https://developers.cloudflare.com/durable-objects/best-practices/error-handling/ */
function mayTryAgain(error: unknown): boolean {
  const { overloaded, remote, retryable, durableObjectReset } = (error ?? {}) as PlatformError;
  return overloaded !== true && remote !== true && (retryable === true || durableObjectReset === true);
}

export function isOverloaded(error: unknown): boolean {
  return ((error ?? {}) as PlatformError).overloaded === true;
}

/** Whether the object ended during the call: by a release, or by the call itself. */
export function isReset(error: unknown): boolean {
  return ((error ?? {}) as PlatformError).durableObjectReset === true;
}

/** Whether the error says that an object cannot respond now, as opposed to an error of our own code. */
export function isUnavailable(error: unknown): boolean {
  const { overloaded, retryable, durableObjectReset } = (error ?? {}) as PlatformError;
  return (
    overloaded === true ||
    retryable === true ||
    durableObjectReset === true ||
    (error as Error | undefined)?.name === "SilentObject"
  );
}

/** The properties by which the platform marks errors of calls to objects. */
type PlatformError = {
  readonly overloaded?: unknown;
  readonly remote?: unknown;
  readonly retryable?: unknown;
  readonly durableObjectReset?: unknown;
};

/** The pause after a failed try: it grows fourfold and varies, so that callers of one object do not return together. */
export function pauseMs(attempt: number, chance: number): number {
  return FIRST_PAUSE_MS * 4 ** (attempt - 1) * (0.5 + chance);
}

const TRIES = 3;
const FIRST_PAUSE_MS = 100;

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The response of an object, or a `SilentObject` if it takes longer than this. */
export async function orSilent<R>(response: R, ms: number): Promise<Awaited<R>> {
  let stop = () => {};
  const silent = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(new SilentObject(ms)), ms);
    stop = () => clearTimeout(timer);
  });
  try {
    return await Promise.race([response, silent]);
  } finally {
    stop();
  }
}
