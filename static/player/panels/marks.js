// Where the steps stand in a CUDA source: its comments `// step: fill Sij` name them in the twin's words.

const MARK = /^(\s*)\/\/ step: (.+?)\s*$/;

/**
 * The lines of each step, for a source whose ranges the trace does not hold. Launches are numbered as their kernels
 * stand in the file. A step ends before a blank line, a line further out, or the next mark.
 * @param {string[]} lines
 * @returns {Map<string, [number, number]>} "launch/name" -> first and last line, from 1
 */
export function markedSteps(lines) {
  const found = new Map();
  let launch = -1;
  lines.forEach((line, i) => {
    if (/\b__global__\b/.test(line)) launch += 1;
    const mark = MARK.exec(line);
    if (!mark) return;
    const depth = mark[1].length;
    let last = i;
    while (last + 1 < lines.length && continues(lines[last + 1], depth)) last += 1;
    found.set(`${launch}/${mark[2]}`, [i + 1, last + 1]);
  });
  return found;
}

function continues(line, depth) {
  return line.trim() !== "" && line.length - line.trimStart().length >= depth && !MARK.test(line);
}
