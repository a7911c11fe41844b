/** Why a session cannot be imported. `file` and `line` say where in the import the reason stands, if they are known. */
export type ImportFault = { file: string | null; line: number | null; message: string };

/** A fault of the imported data, as against a failure of the gateway. Both halves of an import throw it. */
export class ImportError extends Error {
  readonly fault: ImportFault;

  constructor(message: string, file: string | null = null, line: number | null = null) {
    super(message);
    this.fault = { file, line, message };
  }
}
