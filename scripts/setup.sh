# Sourced by ./demo and ./test: pyproject.toml -> a virtual environment in .venv. A second run changes nothing.
# Needs Python 3.11 or newer (PYTHON=python3.13 selects one) and, for Spark, Java 17 or newer. Installs Java with apt if it has the rights.

say() { printf '%s\n' "$*" >&2; }
stop() { say "$*"; exit 1; }

may_apt() { command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; }
apt_install() {
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo="sudo -n"
  say "installing $* with apt"
  $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$candidate"; return; }
  done
  return 1
}

java_major() { java -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p'; }

need_java() {
  local major
  major=$(java_major 2>/dev/null || true)
  [ -n "$major" ] && [ "$major" -ge 17 ] && return
  may_apt || stop "Java 17 or newer is needed for Spark and was not found. Install it (Debian: apt-get install openjdk-17-jre-headless) and run this again."
  apt_install openjdk-17-jre-headless || stop "apt could not install openjdk-17-jre-headless. Install Java 17 or newer yourself and run this again."
}

need_environment() {
  local python stamp
  python=$(find_python) || stop "Python 3.11 or newer is needed and was not found. Install it, or give its path: PYTHON=/path/to/python $0"
  stamp=$("$python" -c 'import hashlib, sys; print(hashlib.sha256(open("pyproject.toml", "rb").read() + sys.version.encode() + sys.prefix.encode()).hexdigest())')
  if [ "$(cat .venv/omnigraph.stamp 2>/dev/null || true)" = "$stamp" ]; then return; fi
  say "setting up .venv with $($python --version) (once, about a minute)"
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    may_apt || stop "Python's venv module is missing. Install it (Debian: apt-get install python3-venv) and run this again."
    apt_install python3-venv || stop "apt could not install python3-venv. Install it yourself and run this again."
  fi
  "$python" -m venv --clear .venv || stop "could not create a virtual environment in .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip || stop "could not reach PyPI to upgrade pip"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' || stop "could not install the packages of pyproject.toml; is PyPI reachable?"
  printf '%s\n' "$stamp" > .venv/omnigraph.stamp
}

setup() {
  need_java
  need_environment
}

setup_without_java() {
  need_environment
}
