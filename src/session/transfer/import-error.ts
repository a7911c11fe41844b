import type { ImportFault } from "../../protocol/rpc.ts";

/** A fault of the imported data, as against a failure of the gateway. Both halves of an import throw it. */
export class ImportError extends Error {
  readonly fault: ImportFault;

  constructor(message: string, file: string | null = null, line: number | null = null) {
    super(message);
    this.fault = { file, line, message };
  }
}
