"""A comparison is made with what the registered twin leaves, or refused in a sentence: a saved run may say anything of itself."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import flashstep as fs
from flashstep.kernels.engines import cpu
from flashstep.kernels.engines.capture import problems
from flashstep.kernels.engines.retaken import require_twins
from flashstep.kernels.registry import KERNELS

COLUMNS = ("steps.kind", "steps.block", "steps.loop", "steps.events", "events.kind", "events.src", "events.dst", "events.tile")
HOSTILE: tuple[Any, ...] = (0, 1, 2, 5, 1000, "", "Kj", "Oi", "O", "split", [], ["num", 1], {}, "shared", "virtual", True, "bool")
REFUSED = r"^This run is not what the twin of \S+ leaves, so nothing can be compared with it: its \w+( \w+)* differ"


def parts(run: fs.Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tensors, meta) of a saved run, to be changed; without the digest, which would betray any change."""
    data = run.to_bytes()
    size = int.from_bytes(data[:8], "little")
    meta = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["flashstep"])
    del meta["digest"]
    return {name: array.copy() for name, array in load_tensors(data).items()}, meta


def loaded(tensors: dict[str, Any], meta: Any) -> fs.Run | None:
    """The run, if the file is a sound trace."""
    try:
        return fs.load_bytes(save_tensors(tensors, {"flashstep": json.dumps(meta)}))
    except fs.TraceError:
        return None


def compared(run: fs.Run) -> bool:
    """Whether the run is compared; if not, a sentence says why."""
    try:
        fs.compare(run, "recorded")
    except (ValueError, fs.EngineError) as error:
        said = str(error)
        assert said.endswith((".", "…"))
        assert "\n" not in said
        return False
    return True


def places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield (*place, key)
            yield from places(value, (*place, key))


@pytest.mark.skipif(cpu.unavailable() is not None, reason=str(cpu.unavailable()))
@pytest.mark.parametrize("kernel", ["standard", "flash-attention-1", "flash-attention-2", "flash-decoding"])
def test_the_kernels_agree_on_subnormal_numbers(
    kernel: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLASHSTEP_CACHE", str(tmp_path_factory.getbasetemp() / "builds"))
    rng = np.random.default_rng(7)  # whose sums are rounded otherwise by the twin than by the kernels
    q, k, v = (rng.standard_normal((n, 4)).astype(np.float32) for n in (1 if kernel == "flash-decoding" else 6, 11, 11))
    for sizes in ((1, 1, 1e-38), (1, 1, 1e-40), (1, 1, 1e-42), (1e-40, 1, 1), (1e-20, 1e-20, 1e-41), (1e-30, 1e8, 1)):
        small = [(array * size).astype(np.float32) for array, size in zip((q, k, v), sizes, strict=True)]
        verdict = fs.compare(fs.record(kernel, *small), "cpu")
        assert verdict.ok, (sizes, str(verdict.first_divergence))


@pytest.mark.parametrize("kernel", fs.kernels)
@pytest.mark.parametrize("values", ["all", "focus"])
def test_every_run_is_what_its_twin_leaves(kernel: str, values: str) -> None:
    for asked in (*problems(KERNELS[kernel]).values(), {"block_rows": 3, "block_cols": 5, "seed": 4}):
        run = fs.record(kernel, values=values, **asked)
        require_twins(run)
        require_twins(fs.load_bytes(run.to_bytes()))


@pytest.mark.parametrize("kernel", ["flash-attention-2", "flash-decoding", "online-softmax"])
def test_a_header_of_another_run_is_compared_or_refused(kernel: str) -> None:
    """Each place of the header with a few hostile values: never another error."""
    run = fs.record(kernel)
    _, meta = parts(run)
    found = [place for place in places(meta) if place[0] not in ("sources", "captions", "title", "generator")]
    random.Random(0).shuffle(found)
    refused = 0
    for n, place in enumerate(found[:250]):
        for value in (HOSTILE[n % len(HOSTILE)], HOSTILE[(5 * n + 3) % len(HOSTILE)]):
            tensors, meta = parts(run)
            target = meta
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = value
            again = loaded(tensors, meta)
            refused += again is not None and not compared(again)
    assert refused > 20


@pytest.mark.parametrize("kernel", ["flash-attention-2", "flash-decoding", "online-softmax"])
def test_columns_of_another_run_are_compared_or_refused(kernel: str) -> None:
    run = fs.record(kernel)
    rng = np.random.default_rng(0)
    refused = 0
    for name in COLUMNS:
        for _ in range(40):
            tensors, meta = parts(run)
            column = tensors[name].reshape(-1)
            here, there = rng.integers(0, column.size, 2)
            column[here] = column[there]
            again = loaded(tensors, meta)
            same = np.array_equal(column, parts(run)[0][name].reshape(-1))
            if again is not None and not same:
                refused += 1
                with pytest.raises(fs.TraceError, match=REFUSED):
                    fs.compare(again, "cpu")
    assert refused > 10


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda meta: meta["steps"][3]["formulas"].update(Sij=["num", 1]), "its steps"),
        (lambda meta: meta["steps"][3].update(name="fill S"), "its steps"),
        (lambda meta: meta["launches"][0].update(name="another"), "its launches and slots"),
        (lambda meta: meta["launches"][0]["slots"][3].update(name="Xij"), "its launches and slots"),
        (lambda meta: meta["arrays"][4].update(name="A"), "its arrays"),
        (lambda meta: meta["arrays"][0].update(name="A"), "its inputs or its sizes"),
        (lambda meta: meta["problem"].update(seqlen_k=1000), "its sizes"),
        (lambda meta: meta["problem"].update(head_dim=3), "its sizes"),
        (lambda meta: meta["tiling"].update(block_cols=3), "its inputs or its sizes"),
        (lambda meta: meta["tiling"].update(block_cols=5), "its arrays"),
    ],
)
def test_what_differs_is_said(change: Any, what: str) -> None:
    tensors, meta = parts(fs.record("flash-attention-2"))
    change(meta)
    run = loaded(tensors, meta)
    assert run is not None
    with pytest.raises(fs.TraceError, match=f": {what} differ; record it again"):
        fs.compare(run, "cpu")


def test_words_and_numbers_are_the_files_own() -> None:
    """A title, a caption or a changed number is no other run: the comparison shows the number where it is."""
    tensors, meta = parts(fs.record("flash-attention-2"))
    meta["title"] = "My attention"
    meta["captions"] = ["…" for _ in meta["captions"]]
    run = loaded(tensors, meta)
    assert run is not None
    require_twins(run)
    tensors["values"][-5] += 1
    run = loaded(tensors, meta)
    assert run is not None
    verdict = fs.compare(run, "recorded")
    assert verdict.first_divergence is not None


def test_a_kernel_that_there_is_not_is_named() -> None:
    tensors, meta = parts(fs.record("flash-attention-2"))
    meta["kernel"] = "attention-of-tomorrow"
    run = loaded(tensors, meta)
    assert run is not None
    with pytest.raises(fs.ParameterError, match="There is no kernel 'attention-of-tomorrow': choose one of"):
        fs.compare(run, "cpu")
