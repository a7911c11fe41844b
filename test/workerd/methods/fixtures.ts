import type { Opened } from "../harness.ts";

export type Json = Record<string, unknown>;

export const prompt = (sessionId: string, text = "go") => ({ sessionId, prompt: [{ type: "text", text }] });

export async function turn({ client, agent, sessionId }: Opened, say: string): Promise<void> {
  const id = client.call("session/prompt", prompt(sessionId, `ask ${say}`));
  const request = await agent.line();
  agent.update(say);
  agent.answer(request, { stopReason: "end_turn" });
  await client.until(id);
}
