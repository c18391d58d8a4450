// The numbers that stand for words in a trace's columns, as FORMAT.md lists them.

/** Verbs, by the number in `events.kind`. */
export const KINDS = ['load', 'store', 'init', 'fill', 'update', 'barrier', 'partial'];
export const LOAD = 0;
export const STORE = 1;
export const BARRIER = 5;
export const PARTIAL = 6;

/** No node, and no loop index. */
export const NONE = 65535;

export const ITEM_BYTES = { float32: 4, bool: 1 };
