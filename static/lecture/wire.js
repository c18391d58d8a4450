// The hall and the presenter's window talk through the browser alone. The hall holds the place; whoever asks is told, and any
// window may ask it to move.
//
//   to the hall:    {type: "hello"}   {type: "do", action}   {type: "go", index}
//   from the hall:  {type: "at", index, cell, blank}   {type: "bye"}

/** A channel for one recording of one kernel, so that two lectures in one browser do not drive each other. */
export function wire({ kernel, query }) {
  return new BroadcastChannel(`flashstep lecture ${kernel} ${query}`);
}
