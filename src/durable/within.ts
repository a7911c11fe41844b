/** Resolves to the result of the work, or to undefined if the work takes longer than this. The work goes on. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  const timeout = new AbortController();
  const { signal } = timeout;
  const late = scheduler.wait(ms, { signal }).then(
    () => undefined,
    () => undefined,
  );
  try {
    return await Promise.race([work, late]);
  } finally {
    timeout.abort();
  }
}
