/** Where the name or address in a URL leads, as far as the text alone can tell: nothing here asks a name server. */

/**
 * `loopback` stays on this machine. `internal` is everything else that is not the open internet: private, link-local,
 * shared, multicast and reserved addresses, addresses that embed another one, and names that only a local network knows.
 */
export type Reach = "public" | "loopback" | "internal";

/** `hostname` is that of a WHATWG URL, which writes every form of an IPv4 address (octal, decimal, hex) in dotted form. */
export function reachOf(hostname: string): Reach {
  const name = hostname.toLowerCase().replace(/(?<!\.)\.+$/, "");
  if (name.startsWith("[")) return reachOfV6(name.slice(1, -1));
  if (/^\d+(\.\d+){3}$/.test(name)) return reachOfV4(name.split(".").map(Number));
  if (name === "localhost") return "loopback";
  return name.includes(".") && !INTERNAL_NAMES.test(name) ? "public" : "internal";
}

/** Top-level names that the root of the name system delegates to nobody, but that local networks answer. */
const INTERNAL_NAMES =
  /\.(?:localhost|local|localdomain|internal|intranet|private|corp|home|lan|domain|home\.arpa|in-addr\.arpa|ip6\.arpa)$/;

/** First bytes and number of fixed bits of each range of IPv4 that is not public (RFC 6890 and its registry). */
const INTERNAL_V4: readonly (readonly [bytes: readonly number[], bits: number])[] = [
  [[0], 8],
  [[10], 8],
  [[100, 64], 10],
  [[169, 254], 16],
  [[172, 16], 12],
  [[192, 0, 0], 24],
  [[192, 0, 2], 24],
  [[192, 88, 99], 24],
  [[192, 168], 16],
  [[198, 18], 15],
  [[198, 51, 100], 24],
  [[203, 0, 113], 24],
  [[224], 4],
  [[240], 4],
];

function reachOfV4(bytes: readonly number[]): Reach {
  if (bytes[0] === 127) return "loopback";
  return INTERNAL_V4.some(([first, bits]) => isWithin(bytes, first, bits, 8)) ? "internal" : "public";
}

/** Ranges of 2000::/3, the public part of IPv6, that are reserved or embed an address of IPv4. */
const INTERNAL_V6: readonly (readonly [groups: readonly number[], bits: number])[] = [
  [[0x2001, 0], 23],
  [[0x2001, 0xdb8], 32],
  [[0x2002], 16],
  [[0x3fff], 20],
];

function reachOfV6(address: string): Reach {
  const groups = groupsOf(address);
  const high = groups.slice(0, 6);
  if (groups.slice(0, 7).every((group) => group === 0) && groups[7] === 1) return "loopback";
  // IPv4-mapped: systems connect to the embedded address.
  if (high.slice(0, 5).every((group) => group === 0) && high[5] === 0xffff)
    return reachOfV4(groups.slice(6).flatMap((group) => [group >> 8, group & 0xff]));
  if (!isWithin(groups, [0x2000], 3, 16)) return "internal";
  return INTERNAL_V6.some(([first, bits]) => isWithin(groups, first, bits, 16)) ? "internal" : "public";
}

/** The eight groups of an address as a WHATWG URL writes it: hexadecimal, with at most one `::`. */
function groupsOf(address: string): number[] {
  const [head = "", tail] = address.split("::").map((part) => (part === "" ? [] : part.split(":")));
  const [first, last] = [head || [], tail ?? []];
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => "0");
  return [...first, ...zeros, ...last].map((group) => Number.parseInt(group, 16));
}

function isWithin(parts: readonly number[], first: readonly number[], bits: number, width: number): boolean {
  return Array.from({ length: Math.ceil(bits / width) }).every((_, i) => {
    const free = Math.max(0, width - (bits - i * width));
    return (parts[i] ?? 0) >> free === (first[i] ?? 0) >> free;
  });
}
