import type { Opened } from "../fixtures.ts";
import { prompt } from "../fixtures.ts";

export async function turn({ client, agent, sessionId }: Opened, say: string): Promise<void> {
  const id = client.call("session/prompt", prompt(sessionId, `ask ${say}`));
  const request = await agent.line();
  agent.update(say);
  agent.answer(request, { stopReason: "end_turn" });
  await client.until(id);
}
