# What the shell scripts share: where the cache is.
#
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh disable=SC2034

# A relative XDG_CACHE_HOME does not count: so says its specification.
case ${XDG_CACHE_HOME:-} in
/*) cache=$XDG_CACHE_HOME/report-delay ;;
*) cache=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache/report-delay ;;
esac
