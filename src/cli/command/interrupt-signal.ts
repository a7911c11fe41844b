/** A signal that aborts at the first Ctrl-C or SIGTERM, for commands that run until then. */
export function interruptSignal(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());
  return interrupted.signal;
}
