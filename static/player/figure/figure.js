// The stepping figure: HBM above, the grid of blocks, the running block's SRAM below. Import it from here.
//
//   createFigure(host, {trace, replay}) -> Figure
//   figure.show({order, position, cell, previousPosition, animate, speed})   draw this position; cell: {node, row, col, plane?, block?} | null
//                                            animate: fly this step's moves (never under prefers-reduced-motion); speed 1 = 350 ms a move
//   figure.mark(cells)                       outline operands: [{node, row, col, plane?, block?}]; mark([]) takes it back
//   figure.seek(ms)                          hold this step's flights at a moment (export, tests); figure.finish() ends them
//   figure.resize(), figure.destroy()
//   figure.scene, figure.svg                 what is drawn: plain objects, and the <svg> element
//
//   Events of `host` (CustomEvent): 'cell' {node, row, col, plane?, block?}  a person chose a cell (node is a node id)
//                                   'block' {launch, block}                  a person chose a block's square
//   The figure is one tab stop. Keys it takes while focused: arrows, Home, End, [ and ], Enter, Escape (leaves).
//   The stylesheet is static/css/figure.css; `host` should have a size (below 600 px of width the height is free).
