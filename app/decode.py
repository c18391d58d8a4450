"""What decoding was measured to cost on a GPU, and what those measurements say of claims that are often repeated.

`kernels/engines/decode.json` is taken from the newest `benchmarks/results/decode-*.json` by

    python -m flashstep.app.decode benchmarks/results/decode-….json

`benchmarks/decode.py` measures anew. Times are microseconds, medians; `keys` is seqlen_k; a row's `splits` of 1 is the
unsplit kernel, and the best number of splits is the least that comes within 1 % of the fastest. Everything told here is
computed from the rows, so that new measurements change the words.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ..trace.words import listed
from .tables import percent

FILE = Path(__file__).resolve().parent.parent / "kernels" / "engines" / "decode.json"
Results = dict[str, Any]
Row = dict[str, Any]


@cache
def measured() -> Results:
    """`device`, `method`, `problem`, `source`, `ceilings`, the rows `lesson`, `standard` and `pytorch`, and `claims`."""
    found: Results = json.loads(FILE.read_text("utf-8"))
    return found


def lengths(results: Results) -> list[int]:
    """The numbers of keys that were measured, ascending."""
    return sorted({row["keys"] for row in results["lesson"]})


def unsplit(results: Results, keys: int) -> Row:
    """The lesson's kernel with one split."""
    return next(row for row in results["lesson"] if row["keys"] == keys and row["splits"] == 1)


def best(results: Results, keys: int) -> Row:
    """The lesson's kernel with the fewest splits that come within 1 % of the fastest: smaller differences are noise."""
    rows = [row for row in results["lesson"] if row["keys"] == keys and row["splits"] > 1]
    fastest = min(row["us"] for row in rows)
    return min((row for row in rows if row["us"] <= 1.01 * fastest), key=lambda row: row["splits"])


def own_time(row: Row, kernel: str) -> float:
    """The microseconds that one kernel of a row took by itself, without what lies between launches."""
    return float(sum(each["us"] for each in row["kernels"] if each["name"] == kernel))


def combine_share(row: Row) -> float:
    """The combine's share of the two kernels' own time, 0 to 1."""
    combine = own_time(row, "combine")
    return combine / (combine + own_time(row, "split"))


def curves(results: Results) -> dict[str, dict[int, float]]:
    """Label -> keys -> microseconds, for a chart: the lesson's kernel unsplit and split, standard, and PyTorch's paths."""
    found: dict[str, dict[int, float]] = {
        "lesson kernel, unsplit (fp32)": {keys: unsplit(results, keys)["us"] for keys in lengths(results)},
        "lesson kernel, split (fp32)": {keys: best(results, keys)["us"] for keys in lengths(results)},
        "lesson kernels, standard (fp32)": {row["keys"]: row["us"] for row in results["standard"]},
    }
    for row in results["pytorch"]:
        if "us" in row:
            found.setdefault(torch_label(row), {})[row["keys"]] = row["us"]
    return found


def torch_label(row: Row) -> str:
    short = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}[row["dtype"]]
    return f"{row['path']} ({short})"


def read_floor(results: Results, keys: int, bytes_each: int = 4) -> float:
    """Microseconds to read K and V once at the bandwidth that a kernel which only reads reached in the same run."""
    problem = results["problem"]
    size = 2 * problem["batch"] * problem["kv_heads"] * keys * problem["head_dim"] * bytes_each
    return float(size / results["ceilings"]["read_tb_s"] / 1e6)


def intermediate_bytes(kernel: str, heads: int, keys: int, head_dim: int, splits: int = 1, batch: int = 1) -> int:
    """Bytes that one decoded token writes to HBM and reads again, fp32: S and P, or the partials O, m and l."""
    if kernel == "standard":
        return 2 * batch * heads * keys * 4
    return batch * heads * splits * (head_dim + 2) * 4


def table(results: Results, keys: int = 65_536) -> list[Row]:
    """Standard, unsplit and split decode: `name`, `splits`, `launches` (blocks, SMs that ran them, busy share), `bytes`, `us`.

    A launch's `busy` is the share of all SMs' time in which an SM held a block, from the launch's first block to its last.
    """
    problem = results["problem"]
    standard = next(row for row in results["standard"] if row["keys"] == keys)
    rows = []
    for name, row in (("standard", standard), ("unsplit", unsplit(results, keys)), ("split", best(results, keys))):
        splits = row.get("splits")
        size = intermediate_bytes(
            "standard" if splits is None else "flash-decoding", problem["heads"], keys, problem["head_dim"], splits or 1
        )
        rows.append({"name": name, "splits": splits, "launches": row["launches"], "bytes": size, "us": row["us"]})
    return rows


# Claims


def claims(results: Results) -> list[Row]:
    """What is often said, what was measured, and the verdict: `claim`, `figures`, `measured`, `verdict`, `words`.

    `verdict` is "holds", "does not hold" or "half true"; the sentences are made of `figures`.
    """
    return [_speed_up(results), _combine(results), _busy(results), *_growth(results)]


def _claim(claim: str, verdict: str, measured: str, words: str, figures: Row) -> Row:
    return {"claim": claim, "verdict": verdict, "measured": measured, "words": words, "figures": figures}


def _speed_up(results: Results) -> Row:
    times = {keys: unsplit(results, keys)["us"] / best(results, keys)["us"] for keys in lengths(results)}
    keys, sms, heads = 65_536, results["device"]["sms"], results["problem"]["heads"]
    row, share = best(results, keys), sms / heads
    return _claim(
        "Flash decoding is up to 8 times faster at 64k keys.",
        "holds" if times[keys] <= 8 else "does not hold",
        f"At 65,536 keys the lesson's kernel takes {_us(unsplit(results, keys)['us'])} unsplit and"
        f" {_us(row['us'])} with {row['splits']} splits: {times[keys]:.1f} times as fast. Over all lengths the"
        f" factor runs from {min(times.values()):.1f} to {max(times.values()):.1f}.",
        "The published 8 times is of whole models, end to end, and no bound for a kernel. The factor is what the"
        f" unsplit kernel left idle: {heads} heads use {heads} of {sms} SMs, and {sms} over {heads} is"
        f" {share:.1f}. The other {times[keys] / share:.1f} comes of several blocks on each SM: while one waits"
        " for memory or for its one softmax thread, another runs.",
        {
            "splits": row["splits"],
            "times": {str(n): round(x, 2) for n, x in times.items()},
            "sms_over_heads": round(share, 2),
        },
    )


def _combine(results: Results) -> Row:
    rows = [best(results, keys) for keys in lengths(results)]
    own = {row["keys"]: own_time(row, "combine") for row in rows}
    shares = {row["keys"]: combine_share(row) for row in rows}
    first, last = rows[0]["keys"], rows[-1]["keys"]
    split = [row for row in results["lesson"] if row["splits"] > 1]
    most = max(split, key=lambda row: own_time(row, "combine"))
    short = sum(time < 2 for time in own.values())
    small = _from_here_on({keys: share < 0.01 for keys, share in shares.items()})
    others = torch_combines(results)
    wholly = short == len(rows) and small == first
    return _claim(
        "The combine takes under 2 µs and under 1 % of the time.",
        "holds" if wholly else "half true" if short or small else "does not hold",
        f"With the best number of splits the lesson's combine itself runs {min(own.values()):.1f} to"
        f" {max(own.values()):.1f} µs: {percent(shares[first], 1)} of both kernels' time at {first:,} keys,"
        f" {percent(shares[last], 2)} at {last:,}. With {most['splits']} splits and {most['keys']:,} keys it"
        f" takes {own_time(most, 'combine'):.1f} µs. "
        + " ".join(
            f"{label}'s runs {min(us.values()):.1f} to {max(us.values()):.1f} µs, {percent(share[max(share)], 1)}"
            f" at {max(share):,} keys."
            for label, (us, share) in others.items()
        ),
        f"The lesson's is under 2 µs at {short} of {len(rows)} lengths, and under 1 % "
        + (f"from {small:,} keys on. " if small else "at none of the longest. ")
        + "Its time grows with the number of splits, since here one thread adds up m and l, and hardly with the keys, so its"
        " share shrinks as they grow. It is a launch besides, which alone costs"
        f" {results['ceilings']['launch_us']:.1f} µs in a graph. A faster split kernel makes the same combine a"
        " larger share.",
        {
            "us": {str(n): round(x, 3) for n, x in own.items()},
            "share": {str(n): round(x, 5) for n, x in shares.items()},
            "launch_us": results["ceilings"]["launch_us"],
            "pytorch_us": {label: {str(n): x for n, x in us.items()} for label, (us, _) in others.items()},
        },
    )


def torch_combines(results: Results) -> dict[str, tuple[dict[int, float], dict[int, float]]]:
    """Label -> keys -> microseconds, and share, of the second kernel of PyTorch's paths that run two: their combine."""
    found: dict[str, tuple[dict[int, float], dict[int, float]]] = {}
    for row in results["pytorch"]:
        if len(row.get("kernels", ())) == 2:
            us, share = found.setdefault(torch_label(row), ({}, {}))
            first, second = (kernel["us"] for kernel in row["kernels"])
            us[row["keys"]], share[row["keys"]] = second, second / (first + second)
    return found


def _from_here_on(holds: dict[int, bool]) -> int | None:
    """The least key from which on it holds of every larger one too."""
    found = None
    for key in sorted(holds, reverse=True):
        if not holds[key]:
            break
        found = key
    return found


def _busy(results: Results) -> Row:
    keys, sms = 65_536, results["device"]["sms"]
    rows = sorted((row for row in results["lesson"] if row["keys"] == keys), key=lambda row: row["splits"])
    ran = {row["splits"]: row["launches"]["split"]["sms"] for row in rows}
    held = {row["splits"]: row["launches"]["split"]["busy"] for row in rows}
    every = next((splits for splits in ran if ran[splits] == sms), None)
    row = best(results, keys)
    fastest = row["splits"]
    least = min((splits for splits in ran if ran[splits] == sms), key=lambda splits: held[splits], default=1)
    read = read_floor(results, keys) / row["us"]
    return _claim(
        "Splitting keeps 100 % of the SMs busy.",
        "holds" if every and held[fastest] >= 0.995 else "half true" if every else "does not hold",
        f"At 65,536 keys {ran[1]} of {sms} SMs run blocks unsplit ({percent(ran[1] / sms)}), "
        + (f"and all {sms} from {every} splits on. " if every else f"and at most {max(ran.values())} split. ")
        + f"Until the last block ends, an SM holds a block in {percent(held[fastest], 1)} of all SMs' time with {fastest}"
        f" splits, the best, and in {percent(held[least], 1)} with {least}.",
        "That an SM runs blocks does not say that it runs them to the end: blocks come in waves, and the last"
        " wave leaves SMs idle. Nor does a block on an SM say that memory or arithmetic is busy: the kernel reads"
        f" K and V at {percent(read)} of the bandwidth that reading alone reaches.",
        {"sms": {str(n): x for n, x in ran.items()}, "busy": {str(n): x for n, x in held.items()}},
    )


def growth(results: Results, first: int, last: int) -> dict[str, float]:
    """How many times as long each curve's `last` length takes as its `first`."""
    both = {label: curve for label, curve in curves(results).items() if first in curve and last in curve}
    return {label: curve[last] / curve[first] for label, curve in both.items()}


def _growth(results: Results) -> list[Row]:
    ten, flat = growth(results, 2048, 65_536), growth(results, 512, 65_536)
    near = [label for label, times in ten.items() if 8 <= times <= 12]
    level = [label for label, times in flat.items() if times < 1.5]
    least = min(ten, key=lambda label: ten[label])
    flattest = min(flat, key=lambda label: flat[label])
    return [
        _claim(
            "64k keys take 10 times as long as 2k.",
            "holds" if len(near) == len(ten) else "half true" if near else "does not hold",
            f"64k over 2k: {_factors(ten)}.",
            "64k is 32 times 2k, and a kernel that uses the same part of the GPU at both takes 32 times as long:"
            " one that fills it, and the unsplit one, whose idle SMs are idle at both. One that launching or idle"
            " SMs hold up at 2k, and that fills the GPU at 64k, takes fewer. "
            + (f"About 10 is true of {listed(near)}." if near else f"None is near 10 here: {least} has the least."),
            {label: round(times, 2) for label, times in ten.items()},
        ),
        _claim(
            "The curve is flat: 64k keys take as long as 512.",
            "holds" if len(level) == len(flat) else "half true" if level else "does not hold",
            f"64k over 512: {_factors(flat)}.",
            f"Every key must be read, so no kernel's time can stay: at the {results['ceilings']['read_tb_s']:.2f}"
            f" TB/s that reading alone reaches here, K and V of 512 keys take {_us(read_floor(results, 512))} in"
            f" fp32, and those of 65,536 keys {_us(read_floor(results, 65_536))}. Splitting makes the curve flatter at short"
            f" lengths, where launching and idle SMs outweigh the reading; flattest is {flattest}, and that is"
            f" {flat[flattest]:.0f} times.",
            {label: round(times, 2) for label, times in flat.items()},
        ),
    ]


def _factors(of: dict[str, float]) -> str:
    return "; ".join(f"{label} {times:.1f}" for label, times in of.items())


def _us(time: float) -> str:
    return f"{time / 1000:,.1f} ms" if time >= 10_000 else f"{time:,.0f} µs" if time >= 100 else f"{time:.1f} µs"


# The packaged copy


def taken(results: Results, source: str) -> Results:
    """The part of the results that pages tell: all but how the samples lay."""
    dropped = {"rounds", "spread", "samples"}
    rows = {
        name: [{key: value for key, value in row.items() if key not in dropped} for row in results[name]]
        for name in ("lesson", "standard", "pytorch")
    }
    return {"source_file": source, **results, **rows}


def main() -> None:
    path = Path(sys.argv[1])
    content = taken(json.loads(path.read_text("utf-8")), f"benchmarks/results/{path.name}")
    FILE.write_text(json.dumps(content, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
