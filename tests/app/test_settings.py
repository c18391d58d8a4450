"""Settings: where they come from, what is said of one that cannot be used, and that people can find them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from web import is_sentence

from flashstep.app import settings as module
from flashstep.app.serving import data_directory
from flashstep.app.settings import Settings, cache_directory, read_settings, unknown_variables, variable

ROOT = Path(__file__).resolve().parent.parent.parent
Captured = pytest.CaptureFixture[str]


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHSTEP_MAX_STEPS", "123")
    monkeypatch.setenv("FLASHSTEP_ALLOWED_HOSTS", "lab.example, Hall.example")
    monkeypatch.setenv("FLASHSTEP_WORKERS", "")  # as good as unset
    assert read_settings().max_steps == 123
    assert read_settings().allowed_hosts == ("lab.example", "hall.example")
    assert read_settings().workers == Settings.model_fields["workers"].default


NUMBERS = [name for name, field in Settings.model_fields.items() if field.annotation in (int, float)]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["abc", "-1", "1e999x", "nan"])
def test_a_setting_that_cannot_be_used_is_named_in_one_sentence(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable(name), value)
    with pytest.raises(ValueError, match=f"^{variable(name)} is “{value}”; write ") as error:
        read_settings()
    assert is_sentence(str(error.value))
    assert "pydantic" not in str(error.value)


def test_the_sentence_says_what_would_be_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(**values: str) -> str:
        with monkeypatch.context() as patch:
            for name, value in values.items():
                patch.setenv(variable(name), value)
            with pytest.raises(ValueError, match="FLASHSTEP_") as error:
                read_settings()
        return str(error.value)

    assert said(workers="abc") == "FLASHSTEP_WORKERS is “abc”; write a whole number such as 2."
    assert said(workers="65") == "FLASHSTEP_WORKERS is “65”; write at most 64."
    assert said(follow_hours="0") == "FLASHSTEP_FOLLOW_HOURS is “0”; write more than 0."
    assert said(patience_seconds="soon").endswith("write a number such as 1.0.")
    assert said(workers="abc", queue="x").endswith("1 other of these variables cannot be used either.")


def test_the_command_line_says_it_and_stops() -> None:
    for values, words in (
        ({"FLASHSTEP_WORKERS": "abc"}, "flashstep: FLASHSTEP_WORKERS is “abc”; write a whole number such as 2.\n"),
        ({"FLASHSTEP_DATA_DIRECTORY": __file__}, f"flashstep: FLASHSTEP_DATA_DIRECTORY is {__file__}, where nothing can be kept"),
    ):
        process = subprocess.run(
            [sys.executable, "-m", "flashstep", "serve", "--no-open", "--port", "0"],
            env={**os.environ, **values},
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert process.returncode == 2
        assert process.stderr.startswith(words)
        assert process.stderr.count("\n") == 1


def test_a_name_that_is_no_setting_is_said() -> None:
    known = [variable(name) for name in Settings.model_fields]
    assert unknown_variables([*known, "FLASHSTEP_CACHE", "flashstep_workers", "HOME"]) == ""
    assert unknown_variables(["FLASHSTEP_WORKER"]) == "Nothing heeds FLASHSTEP_WORKER; did you mean FLASHSTEP_WORKERS?"
    assert unknown_variables(["FLASHSTEP_B", "FLASHSTEP_A"]) == "Nothing heeds FLASHSTEP_A and FLASHSTEP_B."


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())  # nothing is left


def test_without_a_home_the_server_keeps_things_while_it_runs(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(module, "_cache_directory", lambda: file / "flashstep")
    monkeypatch.delenv("FLASHSTEP_DATA_DIRECTORY", raising=False)
    with contextlib.ExitStack() as running:
        found = data_directory(read_settings(), running)
        (found / "kept").touch()
        assert found.parent == temporary
        assert found.stat().st_mode & 0o077 == 0 or os.name != "posix"
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert str(file) in err
    assert str(found) in err
    assert "FLASHSTEP_DATA_DIRECTORY" in err


def test_a_user_without_any_home_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(module, "_cache_directory", no_home)
    with pytest.raises(OSError, match=r"flashstep"):
        cache_directory().mkdir(parents=True)


@pytest.mark.usefixtures("temporary")
def test_a_folder_that_somebody_names_is_used_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHSTEP_DATA_DIRECTORY", str(tmp_path / "new" / "folder"))
    with contextlib.ExitStack() as running:
        assert data_directory(read_settings(), running) == tmp_path / "new" / "folder"
    (tmp_path / "file").touch()
    monkeypatch.setenv("FLASHSTEP_DATA_DIRECTORY", str(tmp_path / "file"))
    with contextlib.ExitStack() as running, pytest.raises(ValueError, match="FLASHSTEP_DATA_DIRECTORY") as error:
        data_directory(read_settings(), running)
    assert is_sentence(str(error.value))
    assert str(tmp_path / "file") in str(error.value)


def test_the_readme_lists_every_setting() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in Settings.model_fields if f"`{name.upper()}`" not in readme] == []
