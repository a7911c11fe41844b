/** OpenAI's chat completions. */
import { type Body, type Dialect, event, textOf, toolOf } from "./dialect.ts";
import type { Plan } from "./plan.ts";

type ChatMessage = { role: string; content?: unknown };
type ChatTool = { function: { name: string; parameters?: unknown } };

const ROLES: Record<string, "user" | "tool" | "model"> = { user: "user", tool: "tool" };

export const openai: Dialect = {
  read: (body) => ({
    items: ((body.messages ?? []) as ChatMessage[])
      .filter(({ role }) => role !== "system")
      .map(({ role, content }) => ({ by: ROLES[role] ?? "model", text: textOf(content) })),
    tools: ((body.tools ?? []) as ChatTool[]).map((tool) =>
      toolOf(tool.function.name, tool.function.parameters),
    ),
  }),
  stream(plan, body) {
    const chunk = (delta: object, finish: string | null = null) =>
      event(completion(body, { delta, finish_reason: finish }));
    return {
      head: [
        ...plan.thought.map((text) => chunk({ reasoning_content: text })),
        ...plan.texts.map((text) => chunk({ role: "assistant", content: text })),
      ],
      tail: [
        ...calls(plan).map((call) => chunk({ tool_calls: [{ index: 0, ...call }] })),
        chunk({}, finishOf(plan)),
        "data: [DONE]\n\n",
      ],
    };
  },
  whole: (plan, body) =>
    completion(body, {
      message: { role: "assistant", content: plan.texts.join(""), tool_calls: calls(plan) },
      finish_reason: finishOf(plan),
    }),
};

function calls({ call }: Plan): object[] {
  if (!call) return [];
  const { name } = call;
  return [
    {
      id: `call_${crypto.randomUUID()}`,
      type: "function",
      function: { name, arguments: JSON.stringify(call.arguments) },
    },
  ];
}

function finishOf({ call }: Plan): string {
  return call ? "tool_calls" : "stop";
}

function completion({ model }: Body, choice: object): object {
  return {
    id: "completion",
    object: "chat.completion.chunk",
    created: 1,
    model,
    choices: [{ index: 0, ...choice }],
    usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 },
  };
}
