/** A signal that aborts at the first Ctrl-C or SIGTERM, with its name as the reason, for commands that run until then. */
export function interruptSignal(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort(signal));
  return interrupted.signal;
}
