import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { hasPlan, planFaults } from "../fixtures/query-plans.ts";

/**
 * Looks at the plan of every statement that the tests run, in any object and on D1, where it runs. A plan that reads more
 * with every row fails the test that ran the statement, whatever the test is about.
 */
const faults: string[] = [];
const seen = new Set<string>();
/** Statements on D1 that are yet to be explained, with the number of their values. */
const waiting = new Map<string, number>();

type Step = { detail: string };

function judge(sql: string, steps: readonly Step[]): void {
  const found = planFaults(
    sql,
    steps.map(({ detail }) => detail),
  );
  if (found.length > 0) faults.push(`${sql.replaceAll(/\s+/g, " ")}: ${found.join(", ")}`);
}

/** Whether the source runs the statement, and not a test or the test runner. */
function isOurs(): boolean {
  const stack = new Error("where").stack ?? "";
  return stack.includes("/src/");
}

export async function explainStatements(): Promise<void> {
  await explainInObjects();
  explainOnD1();
}

async function explainInObjects(): Promise<void> {
  const stub = env.TENANT_DO.getByName(`explained-${crypto.randomUUID()}`);
  await runInDurableObject(stub, (_, { storage }) => {
    const prototype = Object.getPrototypeOf(storage.sql) as SqlStorage;
    const { exec } = prototype;
    prototype.exec = function explained(this: SqlStorage, sql: string, ...values: never[]) {
      if (!seen.has(sql) && hasPlan(sql) && isOurs()) {
        seen.add(sql);
        judge(sql, exec.call(this, `EXPLAIN QUERY PLAN ${sql}`, ...values).toArray() as Step[]);
      }
      return exec.call(this, sql, ...values);
    } as SqlStorage["exec"];
  });
}

function explainOnD1(): void {
  const prototype = Object.getPrototypeOf(env.INDEX.prepare("SELECT 1")) as D1PreparedStatement;
  const { bind } = prototype;
  prototype.bind = function explained(this: D1PreparedStatement & { statement: string }, ...values) {
    const sql = this.statement;
    if (!seen.has(sql) && hasPlan(sql) && isOurs()) {
      seen.add(sql);
      waiting.set(sql, values.length);
    }
    return bind.apply(this, values);
  };
}

/** The faults of the statements that have run since the last call. */
export async function statementFaults(): Promise<string[]> {
  for (const [sql, values] of waiting) {
    waiting.delete(sql);
    const statement = env.INDEX.prepare(`EXPLAIN QUERY PLAN ${sql}`);
    const { results } = await statement.bind(...Array(values).fill(null)).all<Step>();
    judge(sql, results);
  }
  return faults.splice(0);
}
