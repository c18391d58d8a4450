// The hall and the presenter's window talk through the browser alone. The hall holds the place; whoever asks is told, and any
// window may ask it to move.
//
//   to the hall:    {type: "hello"}   {type: "do", action, held}   {type: "go", index}    held: by a key that is held down
//   from the hall:  {type: "at", index, cell, blank}   {type: "session", session}   {type: "bye"}
//                   session: that students follow, or null; with it a hall that is opened in the place of one goes on

/**
 * A channel for one recording of one kernel in one order of its steps, so that two lectures in one browser do not drive each other.
 * @param {{kernel: string, query: string}} lecture @param {string} order its name: each has places of its own
 */
export function wire({ kernel, query }, order) {
  return new BroadcastChannel(`flashstep lecture ${kernel} ${query} ${order}`);
}
