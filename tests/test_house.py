"""The house's rules: imports run one way, the README is true, the wheel is whole, no page reaches outside."""

from __future__ import annotations

import ast
import graphlib
import hashlib
import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flashstep.app.cli import main

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("trace", "kernels", "app")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def sources(*folders: str, suffix: str = ".py") -> list[Path]:
    """The files of some folders, without what others wrote."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob(f"*{suffix}"))]
    return [path for path in found if "vendor" not in path.parts and "__pycache__" not in path.parts]


def imports(path: Path, *, for_types: bool = True) -> Iterator[tuple[str, bool]]:
    """Every absolute name that a file imports (or those that it needs to run), and whether at import time rather
    than inside a function."""
    package = ["flashstep", *path.relative_to(ROOT).parent.parts]
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def within(of: Callable[[ast.AST], bool]) -> set[ast.AST]:
        return {inner for outer in ast.walk(tree) if of(outer) for inner in ast.walk(outer)}

    typed = within(lambda node: isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    late = typed | within(lambda node: isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for node in ast.walk(tree):
        if node in typed and not for_types:
            continue
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node not in late
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for name in node.names:
                yield f"{module}.{name.name}", node not in late


def test_imports_run_one_way() -> None:
    allowed = {"trace": {"trace"}, "kernels": {"trace", "kernels"}, "app": {"trace", "kernels", "app"}}
    wrong = []
    for room in ROOMS:
        for path in sources(room):
            for name, _ in imports(path):
                parts = name.split(".")
                if parts[0] == "flashstep" and parts[1] in ROOMS and parts[1] not in allowed[room]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
                if parts[0] in ROOMS and len(parts) > 1:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name} without flashstep or dots")
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_itself_by_a_detour() -> None:
    """Late imports count: what needs one to break a circle belongs in a module of its own."""
    files = {".".join(["flashstep", *path.relative_to(ROOT).with_suffix("").parts]): path for path in sources(*ROOMS)}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    needs: dict[str, set[str]] = {}
    for name, path in files.items():
        found = (name for name, _ in imports(path, for_types=False))
        needs[name] = {one if one in files else one.rpartition(".")[0] for one in found} & files.keys() - {name}
    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError with the circle


def test_trace_and_kernels_import_nothing_but_numpy() -> None:
    welcome = {*sys.stdlib_module_names, "numpy", "flashstep"}
    late_guests = {"trace": {"safetensors"}, "kernels": {"safetensors", "cupy"}}  # inside a function that cannot do without
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for room, late in late_guests.items()
        for path in sources(room)
        for name, at_import in imports(path)
        if name.split(".")[0] not in (welcome if at_import else welcome | late)
    ]
    assert not wrong, "\n".join(wrong)


def modules_after(code: str) -> set[str]:
    """The top-level modules that are loaded once `code` has run in a fresh Python."""
    program = f"{code}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


WEB = {"fastapi", "starlette", "uvicorn", "jinja2", "multipart", "python_multipart", "pydantic_settings"}


def test_the_library_records_with_numpy_alone() -> None:
    loaded = modules_after("import flashstep as fs\nfs.record('flash-attention-2')")
    assert "numpy" in loaded
    assert not loaded & {*WEB, "pydantic", "safetensors", "plotly", "typer", "rich", "pygments", "cupy"}


def test_the_command_line_loads_the_web_only_to_serve() -> None:
    loaded = modules_after("from flashstep.app.cli import main\nmain(['ledger', 'standard'])")
    assert "typer" in loaded
    assert not loaded & WEB


def test_no_finite_number_stands_in_for_minus_infinity() -> None:
    stand_in = re.compile(r"-1e[0-9]+f?\b|-FLT_MAX|-?finfo\([^)]*\)\.(min|max)|-3\.4\d*e\+?38")
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in [*sources("trace", "kernels"), *sources("kernels", suffix=".cu")]
        for match in stand_in.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


OUTSIDE = {
    ".html": r"<(script|link|img|iframe|source|video|audio|object|embed|form|base)\b[^>]*(https?:)?//",
    ".css": r"url\(\s*['\"]?\s*(https?:)?//|@import[^;]*//",
    ".js": r"(\bfrom|\bimport|\bfetch\(|\bimport\(|\bWebSocket\(|\bEventSource\(|\bWorker\(|sendBeacon\()\s*['\"`]\s*(\w+:)?//",
    ".svg": r"(href|src)\s*=\s*['\"]\s*(https?:)?//",
}


@pytest.mark.parametrize("suffix", OUTSIDE)
def test_no_page_asks_for_anything_outside(suffix: str) -> None:
    reaching = re.compile(OUTSIDE[suffix], re.IGNORECASE)
    # What others wrote holds addresses in its licences; the browser tests see that no page asks for them.
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources("templates", "static", suffix=suffix)
        for match in reaching.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def blocks(language: str) -> list[str]:
    """The README's code blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_readme_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) == 5
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert (tmp_path / "run.safetensors").stat().st_size > 0
    assert "fill S00" in capsys.readouterr().out


def test_readme_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line.split("#")[0].split() for block in blocks("sh") for line in block.splitlines()]
    commands = [words[1:] for words in lines if words and words[0] == "flashstep"]
    assert {command[0] for command in commands} == {"serve", "record", "show", "export", "ledger", "compare", "engines"}
    for command in commands:
        if command[0] != "serve":  # the browser tests serve
            assert main(command) == 0, command


def test_readme_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.skipif(os.name == "nt", reason="./run and ./test are for a POSIX shell")
def test_setting_up_says_what_it_does(tmp_path: Path) -> None:
    """./run, ./test and ./run again in a fresh checkout, with nothing installed."""
    (tmp_path / ".venv").mkdir()
    for name in ("pyproject.toml", "setup.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    stubs = "new_enough() { :; }; make_venv() { :; }; install_package() { :; }"
    for kind, words in (("run", "Setting up"), ("dev", "Adding what the tests need to"), ("run", None)):
        script = f'ROOT="$1"; . "{ROOT}/.ci/environment.sh"; {stubs}; ensure_environment {kind}'
        done = subprocess.run(["bash", "-uc", script, "bash", str(tmp_path)], capture_output=True, text=True, check=True)
        said = f"{words} Flashstep's environment in .venv (once; a minute or so)\nSet up in 0 s\n" if words else ""
        assert done.stderr.replace("in 1 s", "in 0 s") == said


# The wheel


def add_a_newcomer(root: Path) -> None:
    """Add a kernel to a copy of the tree, as the README says and no more: FlashAttention 2's twin and the README's text."""
    folder = root / "kernels" / "newcomer"
    folder.mkdir()
    (folder / "twin.py").write_bytes((ROOT / "kernels" / "flash_attention_2" / "twin.py").read_bytes())
    (text,) = blocks("py")
    (folder / "__init__.py").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of this tree to which a kernel was added as the README says: its folder, and nothing else."""
    import shutil

    copy = tmp_path_factory.mktemp("copy")
    for name in (*ROOMS, "templates", "static"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "__init__.py", "__main__.py", "py.typed"):
        shutil.copy(ROOT / name, copy / name)
    add_a_newcomer(copy)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_rooms_and_nothing_else(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = set()
    for folder in (*ROOMS, "templates", "static"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        wanted |= {f"flashstep/{path.relative_to(ROOT).as_posix()}" for path in files}
    wanted |= {f"flashstep/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
    newcomer = {name.removeprefix("flashstep/kernels/newcomer/") for name in inside if "/newcomer/" in name}
    assert newcomer == {"__init__.py", "twin.py"}
    wanted |= {f"flashstep/kernels/newcomer/{name}" for name in newcomer}
    assert inside == wanted


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    bin = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(*command: str) -> str:
        program = str(bin / command[0])
        done = subprocess.run([program, *command[1:]], capture_output=True, text=True, cwd=elsewhere, env=clean)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    # The numerical core needs NumPy and nothing else.
    run("python", "-m", "pip", "install", "-q", "--no-deps", str(wheel))
    run("python", "-m", "pip", "install", "-q", "numpy")
    run("python", "-c", "import flashstep as fs; assert len(fs.record('standard').trace.steps) > 1")
    # With what it asks for, the command works, and the newcomer is there.
    run("python", "-m", "pip", "install", "-q", str(wheel))
    assert run("flashstep", "--version").startswith("flashstep ")
    assert "step 0 of" in run("flashstep", "show", "newcomer")
    run("flashstep", "record", "standard", "-o", "a.safetensors")
    assert run("python", "-m", "flashstep", "show", "a.safetensors").startswith("step 0 of")
    program = "import flashstep.app.server as s; from pathlib import Path; s.create_app(); print(Path(s.__file__).parent)"
    assert str(tmp_path) in run("python", "-c", program)


def test_what_others_wrote_is_what_the_manifest_says() -> None:
    vendor = ROOT / "static" / "vendor"
    listed = json.loads((vendor / "manifest.json").read_text("utf-8"))
    for entry in listed:
        content = (vendor / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        assert (vendor / entry["licence_file"]).is_file()
        assert b"new Function" not in content
    named = {entry["file"] for entry in listed} | {entry["licence_file"] for entry in listed} | {"manifest.json"}
    assert {path.relative_to(vendor).as_posix() for path in vendor.rglob("*") if path.is_file()} == named
