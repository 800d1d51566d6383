#!/bin/sh
# A paper's system trained on one GPU, alone, until it stops improving; ours too, with the same questions and minutes.
#
#     sh benchmarks/agents/papers.sh WORK demos kg-r1 metaqa        # no GPU needed
#     sh benchmarks/agents/papers.sh WORK sft kg-r1 metaqa
#     sh benchmarks/agents/papers.sh WORK grpo kg-r1 metaqa         # until F1 on dev is 30 steps old, or MINUTES are over
#     sh benchmarks/agents/papers.sh WORK test kg-r1 metaqa         # test questions, after SFT and after GRPO
#     sh benchmarks/agents/papers.sh WORK hidden graph-rft metaqa   # the same with facts hidden, with and without a web
#     sh benchmarks/agents/papers.sh WORK keep kg-r1 metaqa OUT     # OUT/kg-r1-metaqa: adapter, reports, curve
#     sh benchmarks/agents/papers.sh WORK all kg-r1 metaqa OUT      # all of these, but the demonstrations and `hidden`
#     sh benchmarks/agents/papers.sh WORK instruct kg-r1 cwq-fbpool # GRPO alone, from the model as it is (SIZE=1.5b)
#
# WORK/data has the sets (`python -m benchmarks.agents prepare DATA WORK`). SIZE is 135m, 0.5b or 1.5b; MODEL names a file in place of
# the hub's. VALUES has more values of the recipe, as `--set a=1 --set b=2`. What was kept is a row of docs/results.md.
set -eu
work=$1 verb=${2:-} system=${3:-} set=${4:-} out=${5:-}
[ -n "$set" ] || { sed -n '2,14p' "$0"; exit 2; }
data=$work/data/$set; [ "$set" = world ] && data=world
case ${SIZE:=135m} in
135m) model=smollm2-135m rank=16 alpha=32 rate=1.5e-3 walking=2e-4 ;;
0.5b) model=qwen2.5-coder-0.5b rank=8 alpha=16 rate=8e-4 walking=1e-4 ;;
1.5b) model=qwen2.5-coder-1.5b rank=8 alpha=16 rate=5e-4 walking=5e-5 ;;
*) echo "SIZE is $SIZE; there are 135m, 0.5b and 1.5b" >&2; exit 2 ;;
esac
name=$system-$set; [ "$SIZE" = 135m ] || name=$name-$SIZE
place=$work/papers/$name
mkdir -p "$place"
learnt="--profile 135m --model ${MODEL:-$model} --set model.lora_rank=$rank --set model.lora_alpha=$alpha ${VALUES:-}"

demos() {
    kgwalk demos "$system" --profile 135m --data "$data" --limit "${DEMOS:-8000}" -o "$place/demos.jsonl"
}

sft() {
    kgwalk train "$system" $learnt --data "$data" --stages sft --demos "$place/demos.jsonl" -o "$place/sft" --force \
        --set sft.lr="${RATE:-$rate}" --set sft.minutes="${SFT_MINUTES:-4}" --set sft.eval_questions="${DEV:-512}"
}

grpo() {  # FOLDER [START]
    kgwalk train "$system" $learnt --data "$data" --stages grpo ${2:+--start "$2"} -o "$place/$1" --force \
        --set grpo.minutes="${MINUTES:-12}" --set grpo.steps="${STEPS:-400}" --set grpo.patience="${PATIENCE:-30}" \
        --set grpo.lr="${RATE:-$walking}" --set 'grpo.schedule="cosine"' --set grpo.eval_questions="${DEV:-512}" \
        --set grpo.questions="${QUESTIONS:-64}" --set grpo.group="${GROUP:-8}" --set grpo.save_every=20
}

asked() {  # ADAPTER FOLDER [OPTIONS]: whatever is there already is not asked again
    adapter=$1 folder=$2; shift 2
    kgwalk eval "$system" $learnt --data "$data" --engine local --adapter "$adapter" --limit "${TEST:-3000}" -o "$folder" "$@"
}

tested() {
    asked "$place/sft/adapter" "$place/test-after-sft"
    asked "$place/grpo/adapter" "$place/test-after-grpo"
}

hidden() {  # a share of each question's crucial facts is not in the graph; the web may say them
    for drop in 0 0.2 0.4 0.6; do
        for web in graph none; do
            asked "$place/grpo/adapter" "$place/hidden-$drop-$web" --graph-drop "$drop" --web "$web" --limit "${HIDDEN:-600}"
        done
    done
}

keep() {
    mkdir -p "$out/$name"
    cp -r "$place/grpo/adapter/." "$out/$name/"
    for stage in sft grpo; do cp "$place/test-after-$stage/metrics.json" "$out/$name/test-after-$stage.json"; done
    for report in "$place"/hidden-*/metrics.json; do
        [ -e "$report" ] && cp "$report" "$out/$name/$(basename "$(dirname "$report")").json"
    done
    python3 - "$place/grpo/grpo/metrics.jsonl" "$out/$name/grpo-curve.jsonl" <<'P'
import json, sys

kept = "step reward f1 kl entropy generated_tokens turns seconds eval_f1 eval_hits_at_1 eval_retrieval_rate".split()
with open(sys.argv[1]) as rows, open(sys.argv[2], "w") as curve:
    for row in map(json.loads, rows):
        numbers = {key: row[key] if key == "step" else round(row[key], 4) for key in kept if key in row}
        print(json.dumps(numbers), file=curve)
P
    ls -l "$out/$name"
}

case $verb in
demos) demos ;;
sft) sft ;;
grpo) grpo grpo "${START:-$place/sft/adapter}" ;;
test) tested ;;
hidden) hidden ;;
keep) keep ;;
all) sft; grpo grpo "$place/sft/adapter"; tested; keep ;;
instruct) grpo instruct ;;
*) sed -n '2,14p' "$0"; exit 2 ;;
esac
