// Numbers, labels and captions, character for character as trace/words.py writes them.
//
//   number(x, digits?) -> string       "−∞", "∞", "NaN", U+2212 for minus
//   cellNumber(x) -> string            the short form that fits a cell
//   label(trace, t), caption(trace, t), path(trace, t) -> string, string, string[]
