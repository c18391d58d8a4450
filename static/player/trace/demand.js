// What is damaged is refused with one sentence.

/** The first sentence that is true ends the reading: everything after may rely on everything before. */
export function refuse(sentence) {
  throw new Error(sentence);
}

export function demand(condition, sentence) {
  if (!condition) refuse(sentence);
}

export const isCount = (x, least = 0) => Number.isInteger(x) && x >= least && x < 2 ** 31;
