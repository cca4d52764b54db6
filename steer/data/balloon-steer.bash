# SPDX-License-Identifier: GPL-2.0-or-later
# bash completion for balloon-steer(1)

_balloon_steer_vms() {
    balloon-steer status --json 2>/dev/null |
        sed -n 's/^ *"name" : "\(.*\)",\{0,1\}$/\1/p'
}

_balloon_steer() {
    local cur=${COMP_WORDS[COMP_CWORD]} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        words='run status top explain set withdraw pin unpin record simulate check-config --help --version'
    elif [[ $cur == -* ]]; then
        words='--help --config --control'
        case ${COMP_WORDS[1]} in
        run) words+=' --dry-run --verbose' ;;
        status | explain) words+=' --json' ;;
        top) words+=' --delay --count' ;;
        set) words+=' --lease' ;;
        withdraw) words+=' --all --for' ;;
        pin) words+=' --for' ;;
        record) words+=' --every --count' ;;
        simulate) words+=' --verbose' ;;
        check-config) words+=' --print' ;;
        esac
    else
        case ${COMP_WORDS[1]} in
        explain | set | withdraw | pin | unpin)
            [ "$COMP_CWORD" -eq 2 ] && words=$(_balloon_steer_vms)
            ;;
        record | simulate | check-config)
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
            ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _balloon_steer balloon-steer
