/** Hosts that are gone and that no session needs are remembered for this long, and at most so many of them. */
const MAX_GONE = 50;
const MAX_GONE_MS = 30 * 24 * 60 * 60 * 1000;

/** The names of the hosts to forget, of hosts that are gone and that no session needs. */
export function forgettable(
  gone: readonly { readonly name: string; readonly lastSeenAt: number }[],
  now: number,
): string[] {
  return gone
    .toSorted((a, b) => b.lastSeenAt - a.lastSeenAt)
    .filter(({ lastSeenAt }, place) => place >= MAX_GONE || lastSeenAt + MAX_GONE_MS <= now)
    .map(({ name }) => name);
}
