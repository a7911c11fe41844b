import { isRecord } from "../../../protocol/json-value.ts";
import { type Bounded, type BoundedList, bound, boundList, idOf } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The agent's plans as it last sent them. */
export type Plans = {
  plan: BoundedList | null;
  /** Plans with an id (unstable in ACP), the oldest first. */
  plans: NamedPlan[];
};

export type NamedPlan = { planId: string; plan: Bounded };

export function setPlan(report: Plans, entries: unknown): void {
  report.plan = boundList(entries, STATE_BUDGET.planChars, ["content", "priority", "status"]) ?? report.plan;
}

export function setNamedPlan({ plans }: Plans, plan: unknown, seq: number): void {
  const planId = isRecord(plan) ? idOf(plan.planId) : undefined;
  if (planId === undefined) return;
  const known = plans.find((one) => one.planId === planId);
  if (known) known.plan = bound(plan, seq);
  else plans.push({ planId, plan: bound(plan, seq) });
  if (plans.length > STATE_BUDGET.plans) plans.shift();
}

export function removeNamedPlan(report: Plans, removed: unknown): void {
  report.plans = report.plans.filter(({ planId }) => planId !== removed);
}
