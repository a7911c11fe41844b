import type { Frame } from "../../protocol/frame.ts";
import type { LocalMethod } from "../route.ts";
import { forkForClient } from "./fork.ts";
import { listForClient } from "./list.ts";
import type { ConnectionInfo, LocalAnswer } from "./local-answer.ts";
import { changeForClient, statusForClient } from "./session-info.ts";

/** Answers a request that the connection serves itself, for every agent. */
export function callLocalMethod(
  env: Env,
  info: ConnectionInfo,
  method: LocalMethod,
  frame: Frame,
): Promise<LocalAnswer> {
  switch (method) {
    case "session/list":
      return listForClient(env.INDEX, info.caller, frame.value.params);
    case "session/status":
      return statusForClient(env, info, frame);
    case "session/set_title":
    case "session/archive":
    case "session/unarchive":
      return changeForClient(env, info, method, frame);
    case "session/fork":
      return forkForClient(env, info, frame);
  }
}
