/** Why an archive cannot be imported, and where in it the reason stands. */
export type ArchiveFault = { file: string | null; line: number | null; message: string };

export class ArchiveError extends Error {
  readonly fault: ArchiveFault;

  constructor(message: string, file: string | null = null, line: number | null = null) {
    super(message);
    this.fault = { file, line, message };
  }
}
