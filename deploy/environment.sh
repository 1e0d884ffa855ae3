# shellcheck shell=sh
# Sourced by deploy/laggard and tests/run: makes .venv in the checkout and installs laggard into it.
#
# That needs Python 3.11 or newer and pip; no compiler, and neither of the packages python3-venv and pipx.

die() {
    echo "laggard: $*" >&2
    exit 1
}

# ensure_environment ROOT [test]: afterwards ROOT/.venv has laggard with the packages that deploy/locks names, and those
# that the tests need if that was asked for. A stamp remembers for which pyproject.toml and locks, and for what, this was
# done.
ensure_environment() {
    root=$1
    extra=${2:-}
    venv=$root/.venv
    stamp=$venv/installed
    lock=$root/deploy/locks/${extra:-laggard}.txt
    [ -r "$lock" ] || die "$root is no checkout of laggard"
    wanted=$(cat "$root/pyproject.toml" "$root"/deploy/locks/*.txt | cksum) || die "$root is no checkout of laggard"
    is_installed && return
    mkdir -p "$venv" || die "cannot write to $root; clone laggard to a place where you may write"
    if command -v flock >/dev/null; then
        # Another terminal may be at it: wait for that one, then look again.
        exec 9>"$venv/install.lock"
        flock -n 9 || { echo "laggard: waiting for another installation to end ..." >&2 && flock 9; }
        is_installed || install_laggard
        exec 9>&-
    else
        install_laggard
    fi
}

is_installed() {
    [ -x "$venv/bin/laggard" ] && "$venv/bin/python" -c '' 2>/dev/null || return 1
    case $(cat "$stamp" 2>/dev/null) in
    "$wanted test") return 0 ;;
    "$wanted ") [ -z "$extra" ] ;;
    *) return 1 ;;
    esac
}

install_laggard() {
    echo "laggard: installing into $venv; this is done once and takes about a minute ..." >&2
    log=$venv/install.log
    : >"$log" || die "cannot write to $venv"
    if ! "$venv/bin/python" -c '' 2>/dev/null; then
        find_python
        rm -rf "$venv/bin" "$venv/lib" "$venv/lib64" "$venv/include" "$venv/pyvenv.cfg"
        # Debian has ensurepip in a package of its own; without it the machine's pip installs from outside.
        pip_inside=--without-pip
        "$python" -c 'import ensurepip' 2>/dev/null && pip_inside=
        "$python" -m venv $pip_inside "$venv" >>"$log" 2>&1 || give_up "no environment could be made"
    fi
    set -- "$venv/bin/python" -m pip
    if ! "$@" --version >/dev/null 2>&1; then
        find_python
        set -- "$python" -m pip --python "$venv/bin/python"
        "$@" --version >>"$log" 2>&1 || give_up "pip 22.3 or newer is needed; on Debian: apt install python3-pip"
    fi
    set -- "$@" install --quiet --no-input --disable-pip-version-check
    "$@" --require-hashes --requirement "$lock" >>"$log" 2>&1 ||
        give_up "cannot install the packages that $lock names"
    # The setuptools that builds it is locked, too.
    (cd "$root" && "$@" --no-deps --no-build-isolation --editable .) >>"$log" 2>&1 || give_up "installing failed"
    echo "$wanted $extra" >"$stamp"
}

find_python() {
    for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return
    done
    die "Python 3.11 or newer is needed, $(python3 --version 2>/dev/null || echo none) is here;" \
        "install it, or name it in the variable PYTHON"
}

give_up() {
    tail -n 20 "$log" >&2
    die "$1 (all of it: $log)"
}
