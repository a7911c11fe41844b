import { describe, expect, test } from "vitest";
import { ProcessOwners } from "../../../../src/host/os/process-owners.ts";

/** A process as `pid:parent:group`. */
const list = (...rows: string[]) =>
  rows.map((row) => {
    const [pid = 0, parent = 0, group = 0] = row.split(":").map(Number);
    return { pid, parent, group, startedAt: "1" };
  });

describe("the processes of an agent", () => {
  const owners = [[{ leader: 10, mark: "a" }], [{ leader: 20, mark: "b" }, { leader: 30 }]];

  test("are the members of its groups and their descendants in any group", () => {
    const found = new ProcessOwners(() => undefined);
    const processes = list(
      "1:0:1",
      "10:1:10",
      "11:10:10",
      "12:11:12",
      "13:12:13",
      "20:1:20",
      "31:1:30",
      "32:31:32",
    );
    expect(found.assign(processes, owners)).toEqual([
      [10, 11, 12, 13],
      [20, 31, 32],
    ]);
  });

  test("stay its own when their parents have ended, by mark or by memory", () => {
    const marks = new ProcessOwners((pid) => (pid === 40 ? "b" : undefined));
    expect(marks.assign(list("1:0:1", "40:1:40", "41:40:41"), owners)).toEqual([[], [40, 41]]);

    const memory = new ProcessOwners(() => undefined);
    memory.assign(list("10:1:10", "12:10:12"), owners);
    expect(memory.assign(list("10:1:10", "12:1:12"), owners)).toEqual([[10, 12], []]);
    // The number belongs to another process by now.
    const reused = list("10:1:10", "12:1:12").map((process) => ({ ...process, startedAt: "2" }));
    expect(memory.assign(reused, owners)).toEqual([[10], []]);
  });

  test("are none of those that carry a foreign mark, and a circle ends", () => {
    const found = new ProcessOwners(() => "another");
    expect(found.assign(list("50:51:50", "51:50:51"), owners)).toEqual([[], []]);
  });
});
