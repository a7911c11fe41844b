import { GEMINI } from "./published.ts";
import { publishedAgentSuite } from "./suite.ts";

publishedAgentSuite(GEMINI);
