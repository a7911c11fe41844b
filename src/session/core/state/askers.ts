import { NOBODY, type RequestToAgent } from "./state.ts";

/** The clients that wait for the agent's answer to a request. */

/** Whether one of these connections waits for the answer. */
export function isAskedBy({ connection, also = [] }: RequestToAgent, names: readonly string[]): boolean {
  return [connection, ...also.map((one) => one.connection)].some(
    (asker) => asker !== undefined && names.includes(asker),
  );
}

/** The request without a client that has left. It goes on, and without another asker its answer is for nobody. */
export function withoutAsker(request: RequestToAgent, connection: string): RequestToAgent {
  const also = request.also?.filter((one) => one.connection !== connection);
  return {
    ...request,
    ...(request.connection === connection && { connection: NOBODY }),
    ...(also && { also }),
  };
}
