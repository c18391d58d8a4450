"""The Chromium that the browser tests drive: find one, or (as a script, from `./test`) install one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

#: Debian's packages. The shell is the same engine without a window: a test costs half the processor time in it.
CHROMIUM, SHELL = "chromium", "chromium-headless-shell"
#: What people look at pages with.
WINDOWED = (CHROMIUM, "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
NAMES = (SHELL, *WINDOWED)
APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

DRIVER_LIBRARY = "libatomic1"

#: Left out: the address bar's own pages, which every new context would load behind the page under test (a quarter of its
#: processor time). The last such list counts, so those that Playwright leaves out are repeated.
LEFT_OUT = (
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxSimplification",
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay", "MediaRouter",
    "HttpsFirstBalancedModeAutoEnable", "PaintHolding", "ThirdPartyStoragePartitioning", "OptimizationHints",
    "AvoidCorsURLLoaderRestartOnRedirect", "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch",
)  # fmt: skip

#: Quiet and hermetic: no sandbox (the tests may run as root), no GPU, nothing asked of the network.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    f"--disable-features={','.join(LEFT_OUT)}",
)


def find(names: Sequence[str] = NAMES) -> Path | None:
    """An installed Chromium or Chrome, the first of `names`; FLASHSTEP_CHROMIUM names one itself. None: there is none."""
    chosen = os.environ.get("FLASHSTEP_CHROMIUM")
    if chosen:
        return Path(chosen)
    for name in names:
        if found := shutil.which(name):
            return Path(found)
    return next((Path(path) for path in APPLICATIONS if Path(path).exists()), None)


def driver_starts() -> bool:
    """Whether the program that Playwright's package brings runs: a bare Debian lacks a library that it needs."""
    from playwright._impl._driver import compute_driver_executable

    node, _ = compute_driver_executable()
    return subprocess.run([node, "--version"], capture_output=True).returncode == 0


def playwrights_own() -> Path | None:
    """The browser that Playwright downloaded for itself, if it did."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.exists() else None


def apt_get(*command: str) -> None:
    """Ask Debian's package manager, without questions. Raises CalledProcessError."""
    subprocess.run(
        ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", *command],
        check=True,
        env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def has_package(name: str) -> bool:
    """Whether Debian's archive, as last read, has a package."""
    return subprocess.run(["apt-cache", "show", name], capture_output=True).returncode == 0


def prepare() -> Path:
    """Install what is missing: Debian's packages when this is root on a Debian, else Playwright's own browser.

    Returns the browser. Raises CalledProcessError, or RuntimeError with one sentence.
    """
    on_debian = hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get") is not None
    missing = [] if find() or not on_debian else [CHROMIUM, "fonts-dejavu-core"]
    if not driver_starts():
        if not on_debian:
            raise RuntimeError(f"Playwright needs {DRIVER_LIBRARY}: on Debian and Ubuntu, sudo apt install {DRIVER_LIBRARY}.")
        missing.append(DRIVER_LIBRARY)
    if missing:
        print(f"installing {', '.join(missing)} (once, a minute or two)", flush=True)
        apt_get("update")
        wanted = [SHELL if name == CHROMIUM and has_package(SHELL) else name for name in missing]
        apt_get("install", "-y", "--no-install-recommends", *wanted)
    browser = find() or playwrights_own()
    if browser is None:
        print("no Chromium or Chrome found: fetching Playwright's (once, a minute or two)", flush=True)
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)
        browser = playwrights_own()
    if browser is None:
        raise RuntimeError("Chromium was installed but cannot be found: set FLASHSTEP_CHROMIUM to its path.")
    return browser


def main() -> int:
    """Make sure that there is a browser, and say which."""
    try:
        print(f"browser: {prepare()}")
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        print(f"Installing a browser failed ({said}): install Chromium or Chrome by hand.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
