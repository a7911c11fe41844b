import type { Command } from "commander";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import type { Check } from "./doctor-check.ts";
import type { Step } from "./doctor-steps.ts";
import { printJson, stdout } from "./output.ts";
import { targetOf } from "./resolve.ts";

type DoctorOptions = GatewayOptions & { turn?: boolean | string };

export function doctorCommand(): Command {
  return gatewayCommand("doctor", "Check each step between this machine and the agent")
    .option("--turn [prompt]", "also run a turn in a temporary session (default prompt: `/help`)")
    .action(async (options: DoctorOptions) => {
      const prompt = options.turn === true ? "/help" : options.turn || undefined;
      const { Doctor } = await import("./doctor-steps.ts");
      const doctor = new Doctor(() => targetOf(options), prompt);
      const steps: Step[] = [];
      for await (const step of doctor.steps()) {
        steps.push(step);
        if (!options.json) process.stdout.write(`${line(step)}\n`);
      }
      const failed = steps.find((step) => step.status === "failed");
      if (options.json) printJson({ ok: failed === undefined, steps });
      else process.stdout.write(failed ? "" : "\nno check failed\n");
      if (failed) process.exitCode = failed.code;
    });
}

function line({ name, status, detail, hint }: Step): string {
  const { green, yellow, red, dim } = stdout.colours;
  const marks: Record<Check["status"] | "skipped", string> = {
    ok: green("✓"),
    warning: yellow("!"),
    failed: red("✗"),
    skipped: dim("-"),
  };
  if (status === "skipped") return dim(`- ${name}`);
  const words = detail.length > 0 ? `: ${detail}` : "";
  return `${marks[status]} ${name}${words}${hint ? `\n    ${hint}` : ""}`;
}
