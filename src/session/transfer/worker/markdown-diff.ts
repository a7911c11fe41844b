/**
 * A change as a unified diff of one hunk. Lines that the texts share at their beginning and end are left out; all lines
 * between are shown as removed and added. This takes linear time for any size.
 *
 * Unlike the `unifiedDiff` of the dialects the result is for people, not for `patch`: a missing line feed at the end is
 * not marked, because agents often send fragments of a file, and an unchanged text still gives a header.
 */
export function markdownDiff(path: string, oldText: string | null, newText: string): string {
  const before = linesOf(oldText ?? "");
  const after = linesOf(newText);
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  while (
    tail < before.length - head &&
    tail < after.length - head &&
    before[before.length - 1 - tail] === after[after.length - 1 - tail]
  )
    tail += 1;
  const start = Math.max(0, head - CONTEXT);
  const stop = Math.max(0, tail - CONTEXT);
  const removed = before.slice(start, before.length - stop);
  const added = after.slice(start, after.length - stop);
  return [
    oldText === null ? "--- /dev/null" : `--- a/${relative(path)}`,
    `+++ b/${relative(path)}`,
    `@@ -${range(start, removed.length)} +${range(start, added.length)} @@`,
    ...before.slice(start, head).map((line) => ` ${line}`),
    ...before.slice(head, before.length - tail).map((line) => `-${line}`),
    ...after.slice(head, after.length - tail).map((line) => `+${line}`),
    ...after.slice(after.length - tail, after.length - stop).map((line) => ` ${line}`),
  ].join("\n");
}

const CONTEXT = 3;

function linesOf(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function range(start: number, length: number): string {
  return `${length === 0 ? start : start + 1},${length}`;
}

function relative(path: string): string {
  return path.replace(/^\/+/, "");
}
