/** A change of a file as a unified diff of one hunk, from the first line that differs to the last. */
export function unifiedDiff(path: string, oldText: string, newText: string): string {
  const before = lines(oldText);
  const after = lines(newText);
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < most - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const from = Math.max(0, head - CONTEXT);
  const kept = Math.min(tail, CONTEXT);
  const removed = before.slice(head, before.length - tail);
  const added = after.slice(head, after.length - tail);
  if (removed.length === 0 && added.length === 0) return "";
  const lead = before.slice(from, head);
  const trail = before.slice(before.length - tail, before.length - tail + kept);
  const range = (count: number) => `${count === 0 ? from : from + 1},${count}`;
  const around = lead.length + trail.length;
  const relative = path.replace(/^\/+/, "");
  return [
    `--- ${oldText === "" ? "/dev/null" : `a/${relative}`}\n`,
    `+++ b/${relative}\n`,
    `@@ -${range(around + removed.length)} +${range(around + added.length)} @@\n`,
    ...lead.map((line) => marked(" ", line)),
    ...removed.map((line) => marked("-", line)),
    ...added.map((line) => marked("+", line)),
    ...trail.map((line) => marked(" ", line)),
  ].join("");
}

const CONTEXT = 3;

/** Lines with their ends, so that a missing one at the end of the file is a difference like any other. */
function lines(text: string): string[] {
  return text === "" ? [] : text.split(/(?<=\n)/);
}

function marked(mark: string, line: string): string {
  return line.endsWith("\n") ? mark + line : `${mark}${line}\n\\ No newline at end of file\n`;
}
