# Sourced by ./run and ./test: the private virtual environment in .venv, made on first use and made anew only when
# what it was made from changes. Needs nothing but a POSIX system with bash; says in one sentence what is missing.

OLDEST=3.11
VENV="$ROOT/.venv"
SETUP_LOG="$ROOT/.venv-setup.log"

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

is_root_on_debian() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() { # packages...: quietly, with no questions; what it said goes to the log
  {
    DEBIAN_FRONTEND=noninteractive apt-get -q update &&
    DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$@"
  } >>"$SETUP_LOG" 2>&1 </dev/null
}

new_enough() { "$1" -c "import sys; sys.exit(sys.version_info < (${OLDEST/./, }))" >/dev/null 2>&1; }
can_make_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

find_python() { # prints the first Python that is new enough, one that can make environments before one that cannot
  local name fallback=
  for name in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
    command -v "$name" >/dev/null 2>&1 && new_enough "$name" || continue
    if can_make_venv "$name"; then printf '%s\n' "$name"; return; fi
    fallback=${fallback:-$name}
  done
  [ -n "$fallback" ] && printf '%s\n' "$fallback"
}

make_venv() {
  local python package
  python=$(find_python)
  if [ -z "$python" ] && is_root_on_debian; then
    say 'No Python found: installing it from the distribution'
    apt_install python3 python3-venv || say "that failed: $(tail -n 1 "$SETUP_LOG")"
    python=$(find_python)
  fi
  [ -n "$python" ] || die "Flashstep needs Python $OLDEST or later, and found none; install one, or name it: PYTHON=/path/to/python $0"
  if ! can_make_venv "$python"; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    is_root_on_debian && { say "Installing $package, which Python needs to make an environment"; apt_install "$package"; }
    can_make_venv "$python" ||
      die "$python cannot make virtual environments: install its venv module (on Debian and Ubuntu: sudo apt install $package), then try again"
  fi
  rm -rf "$VENV"
  "$python" -m venv "$VENV" >>"$SETUP_LOG" 2>&1 || die "Making the environment .venv failed: $(tail -n 1 "$SETUP_LOG")"
}

fingerprint() { # what the environment is made from: where it is and what the package asks for
  { printf '%s\n' "$ROOT"; cat "$ROOT/pyproject.toml" "$ROOT/setup.py"; } | cksum
}

show_packages() { # reads pip's output; keeps one line that says what it is at, on a terminal only
  local word name rest
  while IFS=' ' read -r word name rest; do
    if [ -t 2 ]; then
      case $word in
        Collecting | Downloading) printf '\r\033[K  fetching %.60s' "${name##*/}" >&2 ;;
        Installing) printf '\r\033[K  unpacking' >&2 ;;
      esac
    fi
    printf '%s %s %s\n' "$word" "$name" "$rest"
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

pip_install() { # what pip installs
  "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off "$@" \
    2>&1 </dev/null | show_packages >>"$SETUP_LOG"
  return "${PIPESTATUS[0]}"
}

install_package() { # the package as pip takes it; linked, not copied, so that an edit is seen at once
  # The build backend goes into the environment too: a later setup then needs no network unless a package is new.
  local backend
  backend=$(sed -n 's/^requires = \["\(.*\)"\]$/\1/p' "$ROOT/pyproject.toml")
  pip_install "$backend" && pip_install --no-build-isolation --editable "$1"
}

ensure_environment() { # run | dev: nothing to do when it stands and is of today's pyproject.toml
  local kind=$1 wanted target=$ROOT before=$SECONDS what="Setting up Flashstep's environment in .venv"
  wanted=$(fingerprint)
  # What ./test needs holds all that ./run needs.
  local stamp
  for stamp in "$VENV/.flashstep-$kind" "$VENV/.flashstep-dev"; do
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && new_enough "$VENV/bin/python" && return
  done
  # ./test after ./run
  [ "$kind" = dev ] && [ "$(cat "$VENV/.flashstep-run" 2>/dev/null)" = "$wanted" ] &&
    what="Adding what the tests need to Flashstep's environment in .venv"
  say "$what (once; a minute or so)"
  : >"$SETUP_LOG"
  new_enough "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
  rm -f "$VENV"/.flashstep-*
  [ "$kind" = dev ] && target="$ROOT[dev]"
  install_package "$target" || {
    tail -n 12 "$SETUP_LOG" >&2
    die "Installing the packages failed, as shown above (all of it: $SETUP_LOG)"
  }
  printf '%s\n' "$wanted" >"$VENV/.flashstep-$kind"
  say "Set up in $((SECONDS - before)) s"
}

ensure_compiler() { # for the tests of the host engine, which leave themselves out where there is none
  local name
  for name in ${CXX:+"$CXX"} g++ clang++ c++; do command -v "$name" >/dev/null 2>&1 && return; done
  if is_root_on_debian; then
    say 'No C++ compiler found: installing g++, with which the host engine runs the CUDA kernels'
    apt_install g++ || say "that failed: $(tail -n 1 "$SETUP_LOG")"
  else
    say 'No C++ compiler found: the tests of the host engine are left out (install g++ or clang++ to run them)'
  fi
}
