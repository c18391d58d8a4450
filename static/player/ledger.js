// Requested traffic per array: elements that loads and stores ask of HBM, so far and in total.
//
//   totals(trace) -> Ledger
//   soFar(trace, order, position) -> Ledger
//   Ledger: {[array name]: {loads: {transfers, elements, bytes}, stores: {transfers, elements, bytes}}}, every HBM array has its entry
//   sum(ledger) -> {loads, stores}
