#!/bin/sh
# Makes a policy as the shipped ones were made, see docs/training.md: sh tools/make_model.sh ROBOT. Run it again to continue.
set -eu
robot=${1:?name a robot: make model ROBOT=aliengo}
plan=config/collect/$robot.yaml
teacher=models/teachers/$robot.safetensors

train() { # OUT ARGUMENT...
    out=$1
    shift
    [ ! -f "$out/last.safetensors" ] || return 0
    resume=
    [ ! -f "$out/checkpoint.ckpt" ] || resume=--resume
    fcnet train "$@" --out "$out" $resume
}

fcnet collect --config "$plan" --teacher "$teacher" --out "data/$robot"
data="--data data/$robot"
train "runs/$robot-0" --config config/train/imitation.yaml $data
for round in 1 2 3; do
    student=runs/$robot-$((round - 1))/last.safetensors
    fcnet collect --config "$plan" --teacher "$teacher" --student "$student" --shards 20 --seed "$round" \
        --out "data/$robot-$round"
    data="$data --data data/$robot-$round"
    train "runs/$robot-$round" --config config/train/dagger.yaml $data --init "$student"
done
echo "runs/$robot-3 is trained; measure it: fcnet evaluate runs/$robot-3"
