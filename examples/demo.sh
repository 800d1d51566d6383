#!/bin/sh
# What `make demo` runs: a file of triples becomes a graph, is looked at, queried and served; four questions are asked.
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
run() {
    printf '\n$ kgwalk'
    for word; do
        case $word in
            *" "*) printf ' "%s"' "$word" ;;  # so that the line can be pasted
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    kgwalk "$@"
}

cd "$work"
cp "$OLDPWD/$here/films.tsv" .
run kg build films.tsv -o films.kg
run kg query films.kg "Tom Hanks"
run kg query films.kg "Robert Zemeckis" directed_by --direction in
run kg find films.kg "amelie"
run kg query world Norway language
printf '\n$ python examples/served.py films.kg\n'
python "$OLDPWD/$here/served.py" films.kg
# The agent that comes with kgwalk, on the graph that comes with it. Each answer is checked: one that is not as expected
# ends the demo with an error. `kgwalk ask` exits with 1 where the graph does not say, which is the right answer to the last.
asks() { # the exit code and a line of the answer that are expected, then the question
    { run ask "$3" 2>&1 && status=0 || status=$?; echo "$status" > status; } | tee answer
    if [ "$(cat status)" != "$1" ] || ! grep -qxF "$2" answer; then
        printf '\nThe demo expected the answer "%s" (exit %s), got exit %s.\n' "$2" "$1" "$(cat status)" >&2
        exit 1
    fi
}
if [ -t 1 ]; then export FORCE_COLOR=1; fi # through `tee` as well
asks 0 "Luxembourg" "which countries border both France and Germany?"                            # a set
asks 0 "53393091.67" "what is the average population of the countries that border Norway?"       # a number
asks 0 "no" "is Lisbon the capital of Spain?"                                                    # yes or no
asks 1 "the graph does not say" "who is the president of Norway?"
printf '\nFour kinds of answer: a set, a number, yes or no, and that the graph does not say.\n'
