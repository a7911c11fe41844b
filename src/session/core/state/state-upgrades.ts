import { type SessionState, STATE_VERSION } from "./state.ts";

/** Takes a state from the version that is its index in `UPGRADES` to the next one, in place. */
type Upgrade = (state: Record<string, unknown>) => void;

/**
 * Upgrades of stored states. A raise of `STATE_VERSION` adds an entry if the new state can be made of the old one; a
 * session then wakes from its snapshot. Without an entry the state is folded anew from the whole log, which for a session
 * at rest is in the archive.
 */
const UPGRADES: Readonly<Record<number, Upgrade>> = {
  // The time of the last event leaves out the archiving. Of an earlier state it may be that time.
  10: () => {},
};

/** A stored state in the present form; undefined if it has to be folded anew. */
export function upgradeState(stored: Record<string, unknown>): SessionState | undefined {
  let version = stored.version;
  while (version !== STATE_VERSION) {
    const upgrade = typeof version === "number" ? UPGRADES[version] : undefined;
    if (!upgrade) return undefined;
    upgrade(stored);
    version = (version as number) + 1;
  }
  // A state of this version has the form of this version.
  return { ...stored, version } as SessionState;
}
