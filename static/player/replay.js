// What slots and tiles hold after any step, from a keyframe and a few events.
//
//   new Replay(trace)
//   replay.slot(slotId, block, step) -> SlotState | null     null: uninitialised. step: a step of that block
//                                                            (order.progress(...) when blocks run together)
//   replay.slots(launch, block, step) -> [{node: SlotNode, state: SlotState | null}]     in layout order
//   replay.before(slotId, block, step) -> SlotState | null   as slot(), before this step's events
//   replay.tile(arrayId, tile, order, position) -> TileState
//   replay.tiles(arrayId, order, position) -> Int32Array     last store event of each tile, -1: never stored (do not keep or change it)
//   replay.value(arrayNode, plane, row, col, order, position) -> number | null           null: unknown (see tile().origin)
//
//   SlotState {event, step, kind, rows, cols, values: Float32Array | null, stale, label, array: ArrayNode|null, tile, tiles}
//     values: row-major rows · cols, null when not kept; label: 'Pij' once Sij is relabelled; array, tile: what it stands for
//   TileState {event, step, rows, cols, values: Float32Array | null, origin: 'stored'|'initial'|'filled'|'unwritten'|'unkept'}
//     event, step: -1 when no store reached it yet
