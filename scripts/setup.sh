#!/usr/bin/env bash
# Installs what simwarden needs and this machine lacks: Postgres, 15 or newer. Go must be there.
#
#   scripts/setup.sh            Postgres
#   scripts/setup.sh --browser  also a Chromium for the browser tests, where one can be had
#
# It changes nothing when all is there. As root it installs directly, else through sudo. The system
# service that a package may start is neither needed nor touched: simwarden runs a server of its own.
set -euo pipefail

oldest=15

say() { printf 'set-up: %s\n' "$*"; }
die() {
	printf 'set-up: %s\n' "$*" >&2
	exit 1
}

# The major version of the newest Postgres in the places where simwarden looks, 0 for none.
newest_postgres() {
	local newest=0 program version places
	if [ -n "${SIMWARDEN_PG_BIN:-}" ]; then
		places=("$SIMWARDEN_PG_BIN")
	else
		places=(/usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql*
			/opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin)
		program=$(command -v postgres || true)
		[ -z "$program" ] || places+=("$(dirname "$(realpath "$program")")")
	fi
	for place in "${places[@]}"; do
		[ -x "$place/postgres" ] && [ -x "$place/initdb" ] || continue
		version=$("$place/postgres" --version 2>/dev/null | sed -nE 's/^postgres \(PostgreSQL\) ([0-9]+).*/\1/p')
		[ "${version:-0}" -le "$newest" ] || newest=$version
	done
	echo "$newest"
}

# Runs a command as root.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@" </dev/null
	else
		sudo "$@"
	fi
}

can_be_root() {
	[ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }
}

# Installs a package by the name that this system's package manager has for it.
install() {
	local purpose=$1 apt=$2 dnf=$3 apk=$4 brew=$5 command
	if command -v apt-get >/dev/null; then
		command="apt-get install -y -q --no-install-recommends $apt"
	elif command -v dnf >/dev/null; then
		command="dnf install -y -q $dnf"
	elif command -v apk >/dev/null; then
		command="apk add $apk"
	elif command -v brew >/dev/null; then
		brew install "$brew" # as the user who owns it, never as root
		return
	else
		say "$purpose has to be installed by hand: none of apt-get, dnf, apk and brew is here" >&2
		return 1
	fi
	if ! can_be_root; then
		say "$purpose has to be installed, and you are neither root nor allowed to use sudo here; as root, run: $command" >&2
		return 1
	fi
	if [ "${command%% *}" = apt-get ]; then
		# Old lists name files that are gone. A source that does not answer must not stop the others.
		as_root apt-get update -q || say "the package lists could not all be read; going on with what is there"
	fi
	# Split into words on purpose: it holds no others than those above.
	# shellcheck disable=SC2086
	as_root env DEBIAN_FRONTEND=noninteractive $command
}

need_postgres() {
	local found
	found=$(newest_postgres)
	[ "$found" -lt "$oldest" ] || return 0
	if [ -n "${SIMWARDEN_PG_BIN:-}" ]; then
		die "SIMWARDEN_PG_BIN is $SIMWARDEN_PG_BIN, where there is no Postgres $oldest or newer; unset it, or name the folder of postgres and initdb"
	fi
	say "installing Postgres"
	install "Postgres $oldest or newer" postgresql postgresql-server postgresql postgresql@17 ||
		die "Postgres could not be installed; see above"
	found=$(newest_postgres)
	[ "$found" != 0 ] || die "the package was installed but its postgres and initdb were not found; name their folder in SIMWARDEN_PG_BIN"
	[ "$found" -ge "$oldest" ] ||
		die "this system's packages have Postgres $found and $oldest or newer is needed; install it from the PostgreSQL project's own packages, or name its folder in SIMWARDEN_PG_BIN"
	say "Postgres $found is installed"
}

# Never fails: without a browser, all but the browser tests run.
want_browser() {
	local name
	for name in chromium chromium-browser google-chrome google-chrome-stable; do
		! command -v "$name" >/dev/null || return 0
	done
	say "installing Chromium"
	(install Chromium chromium chromium chromium chromium) || say "going on without Chromium"
}

command -v go >/dev/null || die "Go is missing; install the version that go.mod names, or newer, and put it on PATH"

need_postgres
for option in "$@"; do
	case $option in
	--browser) want_browser ;;
	*) die "unknown option $option; there is only --browser" ;;
	esac
done
