#!/bin/sh
# The course of the agents that come with kgwalk, in the full walking language, for three sizes of model.
#
#     sh benchmarks/agents/full.sh WORK demos               # demonstrations, on all processors (JOBS at a time)
#     HELD="birds chess" sh benchmarks/agents/full.sh WORK demos    # the same without these lessons, to measure on them
#     sh benchmarks/agents/full.sh WORK mix                 # shuffle what is there into one course; demos does it too
#     sh benchmarks/agents/full.sh WORK sft 135m            # learn from them, on one GPU
#     MIX=mix-part MINUTES=6 sh benchmarks/agents/full.sh WORK sft 0.5b
#     MIX=mix-part MINUTES=10 sh benchmarks/agents/full.sh WORK sft 1.5b
#     sh benchmarks/agents/full.sh WORK questions           # fresh invented graphs to learn from by walking them
#     MINUTES=8 sh benchmarks/agents/full.sh WORK grpo 1.5b # from the adapter that sft made, or from START
#
# WORK/data is what `python -m benchmarks.agents prepare DATA WORK` builds. The smallest goes on from START, an adapter of the course
# before; without it, and for the larger ones, learning begins with the model alone. MODEL names a file instead of the hub's.
set -eu
work=$1; data=$work/data; out=$work/full; shards=${SHARDS:-16}; jobs=${JOBS:-16}; seed=${SEED:-2700}
mkdir -p "$out"
sets="metaqa pq-2h pq-3h wc2014 webqsp-fbpool cwq-fbpool timequestions"
learnt="--set protocol.language=\"full\" --set protocol.documented=false --set protocol.ahead=8 --set protocol.samples=true --set protocol.examples=3 --set protocol.kinds=24"

demos() {  # QUESTIONS FILE [LIMIT]
    kgwalk demos kgwalk --data "$1" $learnt --set demos.distractors=0.12 --set demos.examples_share="${EXAMPLES:-0.35}" \
        --set demos.asked_kinds="${ASKED:-0.35}" \
        --set 'demos.sources=["program","dates","gold","evidence"]' ${3:+--limit "$3"} -o "$2.part" && mv "$2.part" "$2"
}

one() {  # lesson-NAME:VARIANTS, worlds-N:GRAPHS, set-NAME:LIMIT or made-NAME:COUNT: its demonstrations, unless they are there
    part=${1%%:*}; most=${1##*:}; name=${part#*-}
    [ -e "$out/$part.jsonl" ] && return
    where=$data/$name; [ "$name" = world ] && where=world
    case $part in
    lesson-*)  # questions written by hand; with fewer worked examples, as other questions of the graph say too much
        rm -rf "$out/$part"
        python3 -m benchmarks.lessons make "$name" -o "$out/$part" --seed "$seed" --variants "$most" --each "${EACH:-2}" &&
            EXAMPLES=0.2 ASKED=0.1 demos "$out/$part" "$out/$part.jsonl" ;;
    worlds-*)  # invented graphs, 60 questions each, every pattern of the language
        without=""; for set in $sets; do without="$without --without-phrasings $data/$set"; done
        kgwalk questions worlds -o "$out/$part" --worlds "$most" --per-world 60 --seed $((seed + name)) --language full \
            --dated 0.15 --noise 0.15 --dev 0.02 --test 0 --force $without && demos "$out/$part" "$out/$part.jsonl" ;;
    made-*)
        kgwalk questions make "$where" -o "$out/$part" --count "$most" --noise 0.05 --language full --force &&
            demos "$out/$part" "$out/$part.jsonl" ;;
    set-*) demos "$where" "$out/$part.jsonl" "$most" ;;
    esac
}

make_demos() {
    parts="set-metaqa:3000 set-pq-2h:800 set-pq-3h:2500 set-wc2014:1800 set-webqsp-fbpool:9000 set-cwq-fbpool:9000 set-timequestions:9000
        set-world:9000 made-world:1800 made-metaqa:900 made-pq-3h:600 made-wc2014:900 made-cwq-fbpool:3000 made-timequestions:1200"
    for lesson in benchmarks/lessons/*/lesson.toml; do
        lesson=$(basename "$(dirname "$lesson")")
        case " ${HELD:-} " in *" $lesson "*) ;; *) parts="$parts lesson-$lesson:${VARIANTS:-5}" ;; esac
    done
    for shard in $(seq 1 "$shards"); do parts="$parts worlds-$shard:${WORLDS:-30}"; done
    printf '%s\n' $parts | xargs -P "$jobs" -n 1 sh "$0" "$work" one
}

mix() {  # mix.jsonl is for the smallest; mix-part.jsonl for the larger ones, which do not come through all in their minutes
    python3 - "$out" <<'P'
import random, sys
from pathlib import Path

# How often each file comes; a share of one is its first lines, drawn anew. Last the sort of a file, for what is not named.
WHOLE = {"set-cwq-fbpool": 2, "set-webqsp-fbpool": 3, "set-timequestions": 2, "set-world": 2,
         "set-metaqa": 0.5, "set-pq-3h": 0.5, "set-wc2014": 0.5}
PART = {"set-cwq-fbpool": 2, "set-webqsp-fbpool": 2, "set-timequestions": 2, "set-world": 0.5,
        "lesson": 0.4, "worlds": 0.2, "made": 0.2, "set": 0.15}
out = Path(sys.argv[1])
for name, shares in {"mix": WHOLE, "mix-part": PART}.items():
    chance, rows = random.Random(0), []
    for file in sorted(out.glob("*-*.jsonl")):
        if file.stem.startswith("mix"):
            continue
        lines = file.read_text().splitlines(keepends=True)
        chance.shuffle(lines)
        share = shares.get(file.stem, shares.get(file.stem.split("-")[0], 1))
        rows += lines * int(share) if share >= 1 else lines[: round(share * len(lines))]
    chance.shuffle(rows)
    (out / f"{name}.jsonl").write_text("".join(rows))
    print(f"{name}: {len(rows)} demonstrations")
P
}

of_size() {  # SIZE: its model, the size of its adapter, the rate it learns with
    case $1 in
    135m) model=smollm2-135m rank=16 alpha=32 rate=1.5e-3 ;;
    0.5b) model=qwen2.5-coder-0.5b rank=8 alpha=16 rate=8e-4 ;;
    1.5b) model=qwen2.5-coder-1.5b rank=8 alpha=16 rate=5e-4 ;;
    *) echo "unknown size $1; there are 135m, 0.5b and 1.5b" >&2; exit 2 ;;
    esac
}

sft() {  # SIZE
    of_size "$1"
    kgwalk train kgwalk --profile 135m --model "${MODEL:-$model}" $learnt --data world --stages sft --demos "$out/${MIX:-mix}.jsonl" \
        ${START:+--start "$START"} -o "$out/$1" --set model.lora_rank=$rank --set model.lora_alpha=$alpha --set sft.epochs=1 \
        --set sft.batch=64 --set sft.lr="${RATE:-$rate}" --set sft.minutes="${MINUTES:-0}" --set sft.eval_questions=0 --set sft.save_every=100000
}

make_questions() {  # graphs that no demonstration is of, as many as are asked in some hundred steps
    without=""; for name in $sets; do without="$without --without-phrasings $data/$name"; done
    seq 1 "${FRESH:-6}" | xargs -P "$jobs" -I% kgwalk questions worlds -o "$out/fresh-%" --worlds "${WORLDS:-10}" --per-world 60 --seed 39% \
        --language full --dated 0.15 --noise 0.15 --dev 0.02 --test 0 $without
}

grpo() {  # SIZE
    of_size "$1"
    given="--data world:300 --data $data/webqsp-fbpool --data $data/cwq-fbpool --data $data/timequestions --data $data/metaqa:200 --data $data/pq-3h:200"
    for made in "$out"/fresh-*; do [ -d "$made" ] && given="$given --data $made"; done
    for lesson in "$out"/lesson-*; do [ -d "$lesson" ] && given="$given --data $lesson:${EACH_LESSON:-150}"; done
    # Questions whose walks differ in reward teach: after imitation most are known, so those are asked again.
    kgwalk train kgwalk --profile 135m --model "${MODEL:-$model}" $learnt $given --stages grpo --start "${START:-$out/$1/adapter}" \
        -o "$out/$1-grpo" --set model.lora_rank=$rank --set model.lora_alpha=$alpha --set 'curriculum.order="variance"' \
        --set grpo.lr="${RATE:-1e-4}" --set grpo.questions="${QUESTIONS:-96}" --set grpo.group=8 --set grpo.steps="${STEPS:-120}" \
        --set grpo.minutes="${MINUTES:-0}" --set grpo.eval_every=0 --set grpo.eval_questions=0 --set grpo.save_every=40
}

case ${2:-} in
demos) make_demos; mix ;;
one) one "${3:-}" ;;
mix) mix ;;
sft) sft "${3:-}" ;;
questions) make_questions ;;
grpo) grpo "${3:-}" ;;
*) sed -n '2,15p' "$0"; exit 2 ;;
esac
