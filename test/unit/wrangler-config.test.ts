/**
 * The environment with containers equals the default one plus a container. wrangler environments do not inherit, so
 * both are written out.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { unstable_readConfig as readConfig } from "wrangler";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const config = join(PROJECT, "wrangler.toml");
const plain = readConfig({ config });
const containers = readConfig({ config, env: "containers" });

test("the container environment has the same bindings, variables and settings", () => {
  const { AUTH_ISSUER, AUTH_AUDIENCE, AUTH_JWKS, PUBLIC_URL, ...more } = containers.vars;
  expect({ AUTH_ISSUER, AUTH_AUDIENCE, AUTH_JWKS, ...more }).toEqual(plain.vars);
  expect(PUBLIC_URL).toBe("");
  const own = { name: "AGENT_CONTAINER", class_name: "AgentContainer" };
  const { bindings, ...strategy } = plain.durable_objects;
  expect(containers.durable_objects).toEqual({ ...strategy, bindings: [...bindings, own] });
  for (const same of [
    "d1_databases",
    "r2_buckets",
    "compatibility_date",
    "compatibility_flags",
    "observability",
  ] as const)
    expect(containers[same]).toEqual(plain[same]);
});

test("the way in which a deploy replaces objects is set, not left to the platform", () => {
  // The types of this wrangler do not know the table yet; the file is read as it is.
  expect(plain.durable_objects).toMatchObject({ code_update_strategy: { mode: "deferred", max_delay: 300 } });
});

test("the container environment makes the same classes and the container's class", () => {
  const classes = ({ migrations }: typeof plain) =>
    migrations.flatMap(({ new_sqlite_classes = [] }) => new_sqlite_classes).toSorted();
  expect(classes(containers)).toEqual([...classes(plain), "AgentContainer"].toSorted());
});

test("the image has the files its Dockerfile copies", () => {
  expect(plain.containers ?? []).toEqual([]);
  const [container] = containers.containers ?? [];
  expect(container).toMatchObject({ class_name: "AgentContainer", image: join(PROJECT, "Dockerfile") });
  const dockerfile = readFileSync(join(PROJECT, "Dockerfile"), "utf8");
  const ignored = readFileSync(join(PROJECT, ".dockerignore"), "utf8").split("\n");
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(?:--\S+ )?(.+) \S+$/gm)].flatMap((match) =>
    (match[1] as string).split(" "),
  );
  expect(copied).toContain("src/container/entrypoint.sh");
  for (const path of copied) {
    expect(() => readFileSync(join(PROJECT, path, path === "src" ? "worker.ts" : ""))).not.toThrow();
    expect(ignored).toContain(`!${path.split("/")[0]}`);
  }
  for (const name of Object.keys(container?.image_vars ?? {})) expect(dockerfile).toContain(`ARG ${name}=`);
});
