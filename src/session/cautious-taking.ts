/** How input is taken that may have ended the object before. */
type Taking<T> = {
  /** Stores that the group is tried. Resolves to the number of this try when that is durable. */
  begin(group: readonly T[], at: number): Promise<number>;
  take(group: readonly T[]): void;
  /** Takes note of an input that ended the object `ends` times, in the place of taking it. */
  skip(input: T, ends: number): void;
  /** Every input was taken or skipped. */
  end(): void;
};

/**
 * Takes inputs that may have ended the object before. They are taken in growing groups, the first one alone, and each
 * group is durable before the next begins: an input that ends the object comes first after few more losses, and is then
 * counted alone. `inputs` is asked when nothing else runs in the object: later messages find these inputs taken.
 */
export async function takeCautiously<T>(
  ctx: DurableObjectState,
  inputs: () => readonly T[],
  maxTries: number,
  { begin, take, skip, end }: Taking<T>,
): Promise<void> {
  let failure: { error: unknown } | undefined;
  // An exception in here would end the object.
  await ctx.blockConcurrencyWhile(async () => {
    try {
      const all = inputs();
      for (let at = 0, size = 1; at < all.length; at += size, size *= 2) {
        const group = all.slice(at, at + size);
        const tries = await begin(group, at);
        const [alone] = group;
        if (group.length === 1 && alone !== undefined && tries > maxTries) skip(alone, tries - 1);
        else take(group);
      }
      end();
    } catch (error) {
      failure = { error };
    }
  });
  if (failure) throw failure.error;
}
