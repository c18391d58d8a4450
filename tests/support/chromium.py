"""The Chromium that the browser tests drive: find one, or (as a script, from `./test`) install one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

#: Quiet and hermetic: no sandbox (the tests may run as root), no GPU, nothing asked of the network.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def find() -> Path | None:
    """An installed Chromium or Chrome; FLASHSTEP_CHROMIUM names one itself. None: there is none."""
    chosen = os.environ.get("FLASHSTEP_CHROMIUM")
    if chosen:
        return Path(chosen)
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    return next((Path(path) for path in APPLICATIONS if Path(path).exists()), None)


def playwrights_own() -> Path | None:
    """The browser that Playwright downloaded for itself, if it did."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.exists() else None


def install() -> None:
    """Debian's package when this is root on a Debian, else Playwright's download. Raises CalledProcessError."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        get = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
        subprocess.run([*get, "update"], check=True, env=quiet, stdin=subprocess.DEVNULL)
        wanted = ["chromium", "fonts-dejavu-core"]
        subprocess.run(
            [*get, "install", "-y", "--no-install-recommends", *wanted],
            check=True,
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


def main() -> int:
    """Make sure that there is a browser, and say which."""
    browser = find() or playwrights_own()
    if browser is None:
        print("no Chromium or Chrome found: installing one (once, a minute or two)", flush=True)
        try:
            install()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"installing Chromium failed ({error}); install Chromium or Chrome by hand", file=sys.stderr)
            return 1
        browser = find() or playwrights_own()
    if browser is None:
        print("Chromium was installed but cannot be found: set FLASHSTEP_CHROMIUM to its path", file=sys.stderr)
        return 1
    print(f"browser: {browser}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
