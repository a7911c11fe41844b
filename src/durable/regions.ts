/** The jurisdictions and the locations that Cloudflare has for Durable Objects. */
const JURISDICTIONS = ["eu", "us", "fedramp", "fedramp-high"] as const;
const LOCATIONS = [
  ...(["wnam", "enam", "sam", "weur", "eeur"] as const),
  ...(["apac", "apac-ne", "apac-se", "oc", "afr", "me"] as const),
] as const;

/**
 * Where the objects of tenants are, from the variable REGIONS: a JSON object with an entry per tenant, per workspace
 * (`tenant/workspace`), and `*` for tenants without an entry of their own.
 *
 * The jurisdiction is part of the id of an object: under another jurisdiction a tenant would have none of its objects.
 * It is therefore the same for all objects of a tenant and never changes, see `tenant/jurisdiction-claim.ts`. The
 * location is a hint that counts once, when an object is first used.
 */
export type Region = {
  readonly jurisdiction: (typeof JURISDICTIONS)[number] | null;
  readonly location?: (typeof LOCATIONS)[number] | undefined;
};

type Regions = ReadonlyMap<string, Region>;

/** REGIONS is not valid, so nobody can say where any object is. */
export class RegionConfigError extends Error {}

/** The region of a tenant's objects, or of those of one workspace. Without an entry the platform chooses. */
export function regionOf(regions: string | undefined, tenant: string, workspace?: string): Region {
  const read = readRegions(regions);
  const own = read.get(tenant) ?? read.get(EVERY_TENANT) ?? ANYWHERE;
  const near = workspace === undefined ? undefined : read.get(`${tenant}/${workspace}`);
  return near?.location === undefined ? own : { ...own, location: near.location };
}

/** The entries of REGIONS. Throws a `RegionConfigError` that names a wrong entry. */
export function readRegions(text: string | undefined): Regions {
  if (text === undefined || text === "") return NOWHERE;
  if (latest?.text !== text) latest = { text, regions: parse(text) };
  return latest.regions;
}

/** The variable is the same for every request of an isolate, so it is read once. */
let latest: { readonly text: string; readonly regions: Regions } | undefined;

function parse(text: string): Regions {
  const entries = Object.entries(objectIn(text, "REGIONS"));
  return new Map(entries.map(([name, value]) => [name, regionIn(name, value)]));
}

function regionIn(name: string, value: unknown): Region {
  const { jurisdiction = null, location, ...others } = objectIn(value, `The region of ${name}`);
  const [other] = Object.keys(others);
  if (other !== undefined) throw new RegionConfigError(`The region of ${name} has an unknown entry ${other}`);
  if (jurisdiction !== null && !isOneOf(JURISDICTIONS, jurisdiction))
    throw new RegionConfigError(
      `${String(jurisdiction)}, for ${name}, is no jurisdiction: choose one of ${JURISDICTIONS.join(", ")}, or null`,
    );
  if (jurisdiction !== null && name.includes("/"))
    throw new RegionConfigError(`The jurisdiction of ${name} is that of its tenant`);
  if (location !== undefined && !isOneOf(LOCATIONS, location))
    throw new RegionConfigError(
      `${String(location)}, for ${name}, is no location: choose one of ${LOCATIONS.join(", ")}`,
    );
  return { jurisdiction, location };
}

function objectIn(value: unknown, what: string): Record<string, unknown> {
  const read = typeof value === "string" ? jsonIn(value) : value;
  if (typeof read === "object" && read !== null && !Array.isArray(read)) return { ...read };
  throw new RegionConfigError(`${what} must be a JSON object`);
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isOneOf<const T extends string>(all: readonly T[], value: unknown): value is T {
  return all.some((one) => one === value);
}

/** The beginning of the error of a tenant that is in use elsewhere, by which the Worker recognises the error. */
export const JURISDICTION_CHANGED = "The jurisdiction of a tenant was changed";

const EVERY_TENANT = "*";
const ANYWHERE: Region = { jurisdiction: null };
const NOWHERE: Regions = new Map();
