// Orders of the same steps: one block after another, or as a GPU runs them, every block on an SM one step a tick.
//
//   serial(trace) -> Order                  position = step
//   together(trace, sms = 132) -> Order     position = tick; launches one after another, blocks queue for `sms` SMs
//
//   order.name                              'serial' | 'together'
//   order.length                            positions 0 ... length - 1; 0 is the start in both
//   order.at(position) -> {
//     launch                                -1 at the start
//     active: [{launch, block, step}]       blocks at work at this position and the step each has just done, by block
//     progress(block) -> step               last finished step of that block of `launch`, or -1
//     state(block) -> 'done'|'running'|'waiting'
//   }
//   order.progress(launch, block, position) -> step | -1      the same for any launch
//   order.positionOf(step) -> position
//   order.stepAt(position, prefer = {launch, block}) -> step  the preferred block's step when it is active, else the first's
//   To switch and keep one's place: other.positionOf(order.stepAt(position, focus)).
