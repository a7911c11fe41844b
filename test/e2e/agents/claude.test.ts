import { CLAUDE } from "./published.ts";
import { publishedAgentSuite } from "./suite.ts";

publishedAgentSuite(CLAUDE);
