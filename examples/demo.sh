#!/bin/sh
# What `make demo` runs: a file of triples becomes a graph, is looked at, queried and served; three questions are asked.
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
# The agent that comes with kgwalk, on the graph that comes with it: one hop, two hops, and what two sets share.
run ask "what is the capital of Norway?" 2>&1
run ask "what is the currency of the country whose capital is Lima?" 2>&1
run ask "which countries border both France and Germany?" 2>&1
