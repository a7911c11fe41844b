import { gunzip } from "./gzip.ts";

/**
 * The files of one session in the archive. A file is written once and never changed.
 *
 * Files are written unpacked, because the release before cannot read packed ones and a rollback has to open every
 * session. This release reads both forms, so the next one may pack its files.
 */

/** A file is named after its events, so a crash between copy and removal costs a second, equal copy. */
export function archiveKey(tenant: string, sessionId: string, first: number, last: number): string {
  return `${archivePrefix(tenant, sessionId)}events/${padded(first)}-${padded(last)}.ndjson`;
}

/** The text of a file; undefined if the archive does not have the file. */
export async function readArchive(bucket: R2Bucket, key: string): Promise<string | undefined> {
  const object = await bucket.get(key);
  if (!object) return undefined;
  return key.endsWith(PACKED) ? gunzip(object.body) : object.text();
}

/** Writes a file and reads it back. Throws unless the archive has the whole text. */
export async function writeArchive(bucket: R2Bucket, key: string, text: string): Promise<void> {
  await bucket.put(key, text);
  if ((await readArchive(bucket, key)) !== text)
    throw new Error(`The archive does not have ${key} as written`);
}

/** Removes every file of a session, also one that a crash has left without an entry in the log. */
export async function removeArchive(bucket: R2Bucket, tenant: string, sessionId: string): Promise<void> {
  const prefix = archivePrefix(tenant, sessionId);
  for (;;) {
    const { objects } = await bucket.list({ prefix, limit: KEYS_PER_DELETE });
    if (objects.length === 0) return;
    await bucket.delete(objects.map(({ key }) => key));
  }
}

function archivePrefix(tenant: string, sessionId: string): string {
  return `sessions/${tenant}/${sessionId}/`;
}

function padded(seq: number): string {
  return String(seq).padStart(12, "0");
}

/** The end of the name of a file that is packed with gzip. */
const PACKED = ".gz";

/** R2 deletes at most so many objects in one call. */
const KEYS_PER_DELETE = 1000;
