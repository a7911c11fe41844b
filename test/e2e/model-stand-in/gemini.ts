/** Google's generateContent. */
import { type Body, type Dialect, event, toolOf } from "./dialect.ts";
import type { Item, Plan } from "./plan.ts";

type Part = {
  text?: string;
  thought?: boolean;
  functionCall?: object;
  functionResponse?: { response: unknown };
};
type Content = { role?: string; parts?: Part[] };
type Declaration = { name: string; parametersJsonSchema?: unknown; parameters?: unknown };
type Tools = { functionDeclarations?: Declaration[] };
type Schema = { type?: string; enum?: unknown[]; properties?: Record<string, Schema> };

export const gemini: Dialect = {
  read: (body) => ({
    items: ((body.contents ?? []) as Content[]).flatMap(itemsOf),
    tools: ((body.tools ?? []) as Tools[]).flatMap(({ functionDeclarations = [] }) =>
      functionDeclarations.map((tool) => toolOf(tool.name, tool.parametersJsonSchema ?? tool.parameters)),
    ),
  }),
  stream(plan, body) {
    const wanted = structured(body);
    if (wanted) return { head: [], tail: [event(response([{ text: wanted }], "STOP"))] };
    const thoughts = plan.thought.map((text) => event(response([{ text, thought: true }])));
    const texts = plan.texts.map((text) => event(response([{ text }])));
    return { head: [...thoughts, ...texts], tail: [event(response(callParts(plan), "STOP"))] };
  },
  whole: (plan, body) =>
    response([{ text: structured(body) ?? plan.texts.join("") }, ...callParts(plan)], "STOP"),
};

function itemsOf({ role, parts = [] }: Content): Item[] {
  return parts.flatMap((part): Item[] => {
    if (part.functionResponse) return [{ by: "tool", text: JSON.stringify(part.functionResponse.response) }];
    return part.text ? [{ by: role === "model" ? "model" : "user", text: part.text }] : [];
  });
}

function callParts({ call }: Plan): Part[] {
  if (!call) return [{ text: "" }];
  return [{ functionCall: { id: crypto.randomUUID(), name: call.name, args: call.arguments } }];
}

function response(parts: Part[], finishReason?: string): object {
  return {
    candidates: [{ index: 0, content: { role: "model", parts }, ...(finishReason && { finishReason }) }],
    usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 },
    modelVersion: "stand-in",
    responseId: crypto.randomUUID(),
  };
}

/** The agent's side requests, such as the choice of a model, want an object of a given form: any does. */
function structured({ generationConfig }: Body): string | undefined {
  const config = (generationConfig ?? {}) as { responseJsonSchema?: Schema; responseSchema?: Schema };
  const schema = config.responseJsonSchema ?? config.responseSchema;
  return schema && JSON.stringify(fabricated(schema));
}

function fabricated(schema: Schema): unknown {
  if (schema.enum) return schema.enum.at(-1);
  if (schema.properties)
    return Object.fromEntries(
      Object.entries(schema.properties).map(([name, value]) => [name, fabricated(value)]),
    );
  const values: Record<string, unknown> = { array: [], boolean: false, number: 1, integer: 1 };
  return values[schema.type?.toLowerCase() ?? ""] ?? "stand-in";
}
