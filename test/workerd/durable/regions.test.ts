import { describe, expect, test } from "vitest";
import { RegionConfigError, readRegions, regionOf } from "../../../src/durable/regions.ts";

const REGIONS = JSON.stringify({
  acme: { jurisdiction: "eu", location: "weur" },
  "acme/tokyo": { location: "apac-ne" },
  free: { jurisdiction: null, location: "sam" },
  "*": { jurisdiction: "us" },
});

describe("the region of a tenant's objects", () => {
  test("is the tenant's own, or else that of every tenant", () => {
    expect(regionOf(REGIONS, "acme")).toEqual({ jurisdiction: "eu", location: "weur" });
    expect(regionOf(REGIONS, "free")).toEqual({ jurisdiction: null, location: "sam" });
    expect(regionOf(REGIONS, "other")).toEqual({ jurisdiction: "us" });
  });

  test("has the location of a workspace, and never another jurisdiction", () => {
    expect(regionOf(REGIONS, "acme", "tokyo")).toEqual({ jurisdiction: "eu", location: "apac-ne" });
    expect(regionOf(REGIONS, "acme", "berlin")).toEqual({ jurisdiction: "eu", location: "weur" });
    expect(regionOf(REGIONS, "other", "tokyo")).toEqual({ jurisdiction: "us" });
  });

  test.each([undefined, "", "{}"])("is left to the platform by %j", (text) => {
    expect(regionOf(text, "acme", "w")).toEqual({ jurisdiction: null });
  });

  test("is not inherited from the prototype of objects", () => {
    expect(regionOf('{"*":{"jurisdiction":"eu"}}', "constructor")).toEqual({ jurisdiction: "eu" });
  });
});

test.each([
  ["{", "REGIONS must be a JSON object"],
  ["[]", "REGIONS must be a JSON object"],
  ['{"acme":"eu"}', "The region of acme must be a JSON object"],
  ['{"acme":{"jurisdiction":"mars"}}', "mars, for acme, is no jurisdiction: choose one of eu, us, fedramp"],
  ['{"acme":{"jurisdiction":7}}', "7, for acme, is no jurisdiction"],
  ['{"acme":{"location":"paris"}}', "paris, for acme, is no location: choose one of wnam, enam"],
  ['{"acme":{"place":"eu"}}', "The region of acme has an unknown entry place"],
  ['{"acme/w":{"jurisdiction":"eu"}}', "The jurisdiction of acme/w is that of its tenant"],
])("refuses %s and says why", (text, message) => {
  expect(() => readRegions(text)).toThrow(RegionConfigError);
  expect(() => readRegions(text)).toThrow(message);
});
