import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isolate, visibleLine, visibleText } from "../../../src/protocol/visible-text.ts";
import { propertyRuns } from "../../fixtures/property-runs.ts";

/** Everything that a person cannot see, or sees in another order, or takes for a space. */
const RAW =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\p{Variation_Selector}\u2800]|(?! )\p{Zs}/u;

const NASTY = fc.constantFrom(
  ..."\u0000\u0007\u0008\t\n\r\u001b\u007f\u0085\u009b\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u180e",
  ..."\u2000\u2003\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u202f\u205f\u2060",
  ..."\u2061\u2066\u2067\u2068\u2069\u206a\u206f\u2800\u3000\u3164\ufe0f\ufeff\uffa0\ufff9\ufffb\ue000",
  ..."⟨⟩⏎⇥ ",
  ..."\u{e0001}\u{e0041}\u{e007f}\u{e0100}\u{1d173}\u{f0000}",
  "\ud800",
  "\udc00",
  "⟨U+202E⟩",
  "   ",
  " ".repeat(50),
);
const TEXT = fc
  .array(fc.oneof(NASTY, fc.string({ unit: "binary" }), fc.string()), { maxLength: 30 })
  .map((parts) => parts.join(""));

describe("visible text", () => {
  test("marks what cannot be seen, and shows line breaks", () => {
    expect(visibleText("rm -rf \u202e/tmp\u202c\ttwo\nx").text).toBe("rm -rf ⟨U+202E⟩/tmp⟨U+202C⟩⇥two⏎\nx");
    expect(visibleLine("a\nb")).toBe("a⏎b");
    expect(visibleLine("a\u00a0b\u200bc")).toBe("a⟨U+00A0⟩b⟨U+200B⟩c");
    expect(visibleLine("⟨U+202E⟩")).toBe("⟨U+27E8⟩U+202E⟩");
    expect(visibleLine(`a${" ".repeat(200)}; rm -rf /`)).toBe("a⟨200 × U+0020⟩; rm -rf /");
    expect(visibleLine("plain text, ünïcode, 漢字, emoji 😀 and עברית")).toBe(
      "plain text, ünïcode, 漢字, emoji 😀 and עברית",
    );
  });

  test("lets no control, invisible, bidirectional or confusable character through", () => {
    fc.assert(
      fc.property(
        TEXT,
        fc.constantFrom("shown" as const, "mark" as const, "plain" as const),
        (text, newlines) => {
          const { text: shown, hiddenChars } = visibleText(text, { newlines });
          expect(hiddenChars).toBe(0);
          expect(newlines === "mark" ? shown : shown.replaceAll("\n", "")).not.toMatch(RAW);
          expect(shown.split("\n").length - 1).toBe(newlines === "mark" ? 0 : text.split("\n").length - 1);
        },
      ),
      propertyRuns(4000),
    );
  });

  test("shows different texts differently", () => {
    fc.assert(
      fc.property(TEXT, TEXT, (one, other) => {
        fc.pre(one !== other);
        expect(visibleText(one).text).not.toBe(visibleText(other).text);
      }),
      propertyRuns(2000),
    );
    expect(visibleText("⏎\n").text).not.toBe(visibleText("\n\n").text);
  });

  test("is cut between characters, never within a mark, and says how much is missing", () => {
    fc.assert(
      fc.property(TEXT, fc.nat(200), (text, maxChars) => {
        const { text: shown, hiddenChars } = visibleText(text, { maxChars });
        expect(shown.length).toBeLessThanOrEqual(maxChars);
        const seen = text.slice(0, text.length - hiddenChars);
        expect(visibleText(seen).text).toBe(shown);
      }),
      propertyRuns(2000),
    );
  });

  test("keeps letters from right to left within their line", () => {
    expect(isolate("abc\ndef")).toBe("abc\ndef");
    expect(isolate("rm עברית\nx")).toBe("\u2068rm עברית\u2069\n\u2068x\u2069");
  });
});
