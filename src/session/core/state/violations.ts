/** How often the agent broke each rule of the stream. The projection repairs the consequences where it can. */
export type Violations = {
  backwardStatus: number;
  duplicateToolCall: number;
  changedContent: number;
  foreignSession: number;
  noMessage: number;
};

export function noViolations(): Violations {
  return { backwardStatus: 0, duplicateToolCall: 0, changedContent: 0, foreignSession: 0, noMessage: 0 };
}
