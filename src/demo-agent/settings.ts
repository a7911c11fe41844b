/** The modes and config options of each session. */
import type { SessionConfigOption, SessionMode } from "@agentclientprotocol/sdk";

export const DEMO_MODES: SessionMode[] = [
  { id: "ask", name: "Ask", description: "Answers, and asks before it acts" },
  { id: "code", name: "Code", description: "Writes code" },
  { id: "architect", name: "Architect", description: "Plans, and leaves the code to others" },
];

const OPTIONS: SessionConfigOption[] = [
  {
    type: "select",
    id: "model",
    name: "Model",
    category: "model",
    currentValue: "demo-small",
    options: [
      { value: "demo-small", name: "Demo Small" },
      { value: "demo-large", name: "Demo Large", description: "As scripted as the small one" },
    ],
  },
  {
    type: "select",
    id: "thought_level",
    name: "Thinking",
    category: "thought_level",
    currentValue: "low",
    options: [
      { value: "off", name: "Off" },
      { value: "low", name: "Low" },
      { value: "high", name: "High" },
    ],
  },
  { type: "boolean", id: "verbose", name: "Verbose", currentValue: false },
];

/** Boolean options are only for clients that support them. */
export function configOptions(
  values: Record<string, string | boolean>,
  withBooleans: boolean,
): SessionConfigOption[] {
  return OPTIONS.filter((option) => withBooleans || option.type !== "boolean").map(
    (option) =>
      ({ ...option, currentValue: values[option.id] ?? option.currentValue }) as SessionConfigOption,
  );
}

export function isValidConfig(id: string, value: string | boolean): boolean {
  const option = OPTIONS.find((candidate) => candidate.id === id);
  if (option?.type === "boolean") return typeof value === "boolean";
  return option?.options.some((choice) => "value" in choice && choice.value === value) ?? false;
}
