// Where did this number come from? The formula of the step that wrote a cell, with that step's own operands.
//
//   explain(trace, replay, order, position, cell) -> Explanation
//     cell: {node, row, col, block?}            a slot of the launch at work; block defaults to the first active one
//           {node, plane, row, col}             an array, row and col in the whole matrix
//   Explanation {
//     cell, name         what was asked, and its name in words: "li, row 2 (query 2)"
//     status             'formula' | 'loaded' | 'stored' | 'given' | 'filled' | 'empty' | 'guarded' | 'unkept' | 'hidden'
//     title              "l = α·l_old + sum(P)", or a sentence where there is no formula
//     lines              Piece[][]: "= 0.0498 × 1.3679 + 1.1353", "= 1.2034"; a long dot has a line a product
//     operands           Operand[]
//     notes              sentences: why a key is hidden, why values are missing
//     value              the trace's own float32 (null when unknown); computed: from the operands, in double
//     step               the step that wrote it, -1 when none
//   }
//   Piece {text, operand?: index into operands}
//   Operand {text, value, name, node, row, col, plane?, block?, when: 'old'|'new'|'given', step}    step: the one that wrote it, -1 when none
