#!/bin/sh
# What `make demo` runs: a file of triples becomes a graph, is looked at, queried and served.
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
# The default model as published: it has not been trained to walk yet, so this shows the loop, not a skill.
run ask "what is the capital of Norway?" --set protocol.turns=2 2>&1
