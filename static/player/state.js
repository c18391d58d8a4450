// The player's whole state: one frozen object, replaced at each change. Everything on screen follows from it.

/**
 * @typedef {object} State
 * @property {number} position   index into the order on show
 * @property {"serial"|"together"} order
 * @property {number} focus      the block (of the launch on show) that the captions, carries and source follow
 * @property {string|null} cell  the selected cell, as the URL names it: "li.2.0" or "K@0.3.1"
 * @property {boolean} playing
 * @property {number} speed      1 is one step in about a second
 */

/** @typedef {"step"|"jump"|"restore"} How  a step replaces the URL, a jump pushes it, a restoration leaves it */

/**
 * @param {State} initial
 */
export function createState(initial) {
  let state = Object.freeze({ ...initial });
  /** @type {((state: State, previous: State, how: How) => void)[]} */
  const listeners = [];
  return {
    /** @returns {State} */
    get: () => state,

    /**
     * @param {Partial<State>} patch
     * @param {How} [how]
     * @returns {boolean} whether anything changed
     */
    set(patch, how = "step") {
      const keys = /** @type {(keyof State)[]} */ (Object.keys(patch));
      if (keys.every((key) => Object.is(state[key], patch[key]))) return false;
      const previous = state;
      state = Object.freeze({ ...state, ...patch });
      for (const listener of listeners) listener(state, previous, how);
      return true;
    },

    /** @param {(state: State, previous: State, how: How) => void} listener */
    subscribe(listener) {
      listeners.push(listener);
    },
  };
}
