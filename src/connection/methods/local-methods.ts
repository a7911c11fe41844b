import type { Frame } from "../../protocol/frame.ts";
import type { LocalMethod } from "../route.ts";
import { forkForClient } from "./fork.ts";
import { listForClient } from "./list.ts";
import type { ConnectionInfo, LocalAnswer } from "./local-answer.ts";

/** Answers a request that no single session can answer. */
export function callLocalMethod(
  env: Env,
  info: ConnectionInfo,
  method: LocalMethod,
  frame: Frame,
): Promise<LocalAnswer> {
  switch (method) {
    case "session/list":
      return listForClient(env.INDEX, info.caller, frame.value.params);
    case "session/fork":
      return forkForClient(env, info, frame);
  }
}
