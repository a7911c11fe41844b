import { describe, expect, test } from "vitest";
import { app } from "../../../src/http/app.ts";
import { CALLERS, KINDS } from "./callers.ts";
import { fetchAs, makePlace, sharedPlace } from "./place.ts";
import { baseFor, type Expected, ROUTES, statusOf } from "./table.ts";

/** The routes of the app without its middleware. */
function routesOfApp(): string[] {
  const routes = app.routes.filter(({ path }) => !path.endsWith("*"));
  return [...new Set(routes.map(({ method, path }) => `${method} ${path}`))].sort();
}

describe("the table of routes and callers", () => {
  test("lists every route of the app", () => {
    expect(Object.keys(ROUTES).sort()).toEqual(routesOfApp());
  });

  const probes = Object.entries(ROUTES).flatMap(([route, one]) =>
    [one].flat().map((each, n) => [n === 0 ? route : `${route} (${n + 1})`, each] as const),
  );

  test.each(probes)("holds for %s", async (_route, each) => {
    const place = await (each.spends ? makePlace() : sharedPlace());
    const base = baseFor(each, place.workspace);
    const got: Partial<Expected> = {};
    for (const kind of KINDS) {
      const bearer = await CALLERS[kind](base, place);
      got[kind] = await statusOf(await fetchAs(each.ask(place, bearer), bearer));
    }
    expect(got).toEqual({ ...each.group, ...each.differs });
  });
});
