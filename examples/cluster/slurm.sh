#!/usr/bin/env bash
# A sweep as a Slurm array: each task runs one shard on one node, and a last job merges them.
#
#   OUT=/shared/results WHAT=ccr22-heterogeneous-2path examples/cluster/slurm.sh
#
# OUT and the program must be on storage that all nodes share. After a failure or a time limit, give the same command
# again: each shard continues where it stopped.
set -euo pipefail

: "${OUT:?directory of the results}"
WHAT=${WHAT:-ccr22-heterogeneous-2path}
SHARDS=${SHARDS:-16}
CPUS=${CPUS:-8}
ANABRANCH=${ANABRANCH:-anabranch}

# Arguments are further options of `anabranch lab run`, such as --variants single-cubic-original.
shard="$(printf '%q ' "$ANABRANCH" lab run "$WHAT" "$@" --threads "$CPUS")"
shard+="--shard \$SLURM_ARRAY_TASK_ID/$SHARDS --out $(printf '%q' "$OUT")/shards/\$SLURM_ARRAY_TASK_ID"

# --requeue: a task whose node fails is started again.
array=$(sbatch --parsable --job-name anabranch --array "0-$((SHARDS - 1))" --cpus-per-task "$CPUS" --mem 4G \
    --time 1:00:00 --requeue --wrap "$shard")

directories=()
for ((index = 0; index < SHARDS; index++)); do
    directories+=("$OUT/shards/$index")
done
sbatch --job-name anabranch-merge --dependency "afterok:${array%%;*}" --time 0:10:00 \
    --wrap "$(printf '%q ' "$ANABRANCH" lab merge "${directories[@]}" --out "$OUT")"
