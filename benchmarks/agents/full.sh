#!/bin/sh
# The course of the agent that comes with kgwalk, in the full walking language. DATA WORK as for `python -m benchmarks.agents
# prepare`, which builds WORK/data first; demonstrations are made on all processors, here 16, which takes 5 minutes. One H200 with
# another training beside it: 8 minutes for the first stage, 7 for the second.
#
#     sh benchmarks/agents/full.sh WORK
set -eu
work=$1; data=$work/data; out=$work/full; shards=${SHARDS:-16}
mkdir -p "$out"
sets="metaqa pq-2h pq-3h wc2014 webqsp-fbpool cwq-fbpool timequestions"
without=""; for name in $sets; do without="$without --without-phrasings $data/$name"; done
learnt="--set protocol.language=\"full\" --set protocol.documented=false --set protocol.ahead=8 --set protocol.examples=3"
demos() {  # QUESTIONS FILE [LIMIT]
    kgwalk demos kgwalk --data "$1" $learnt --set demos.distractors=0.12 --set demos.examples_share=0.35 \
        --set 'demos.sources=["program","gold","evidence"]' ${3:+--limit "$3"} -o "$2"
}
sft() {  # NAME DEMOS RATE [START]
    kgwalk train kgwalk --profile 135m $learnt --data world \
        --stages sft --demos "$2" ${4:+--start "$4"} -o "$out/$1" --set sft.epochs=1 --set sft.batch=64 --set sft.lr="$3"
}
# 1. Invented graphs: 58 of each shard, 60 questions each, every pattern of the language.
for shard in $(seq 1 "$shards"); do
    (kgwalk questions worlds -o "$out/worlds-$shard" --worlds 58 --per-world 60 --seed $((700 + shard)) --language full \
        --dated 0.15 --noise 0.15 --dev 0.03 --test 0 $without && demos "$out/worlds-$shard" "$out/worlds-$shard.jsonl") &
done
wait
cat "$out"/worlds-*.jsonl > "$out/worlds.jsonl"
sft worlds "$out/worlds.jsonl" 2e-3
# 2. The train splits, questions made from their graphs, and some of the invented ones again.
for name in $sets world; do
    where=$data/$name; [ "$name" = world ] && where=world
    case $name in metaqa) most=5000 ;; pq-2h) most=1500 ;; pq-3h) most=4000 ;; wc2014) most=3000 ;; *) most=9000 ;; esac
    demos "$where" "$out/set-$name.jsonl" "$most" &
done
for one in world:2500 metaqa:1500 pq-3h:1000 wc2014:1500 cwq-fbpool:5000 timequestions:2000; do
    name=${one%%:*}; where=$data/$name; [ "$name" = world ] && where=world
    (kgwalk questions make "$where" -o "$out/made-$name" --count "${one##*:}" --noise 0.05 --language full &&
        demos "$out/made-$name" "$out/made-$name.jsonl") &
done
wait
python - "$out" <<'P'
import random, sys
from pathlib import Path

out, chance, rows = Path(sys.argv[1]), random.Random(0), []
again = {"set-cwq-fbpool": 3, "set-webqsp-fbpool": 4, "set-timequestions": 2, "set-world": 2}
for file in sorted([*out.glob("set-*.jsonl"), *out.glob("made-*.jsonl")]):
    lines = file.read_text().splitlines(keepends=True)
    rows += lines * again.get(file.stem, 1)
worlds = (out / "worlds.jsonl").read_text().splitlines(keepends=True)
rows += chance.sample(worlds, min(len(worlds), 15_000))
chance.shuffle(rows)
(out / "mix.jsonl").write_text("".join(rows))
P
sft agent "$out/mix.jsonl" 1.5e-3 "$out/worlds/adapter"
