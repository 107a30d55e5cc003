#!/bin/sh
# Trains a policy from nothing, see docs/training.md: sh tools/make_model.sh ROBOT. Run it again to continue.
set -eu
robot=${1:?name a robot: make model ROBOT=aliengo}
first=runs/$robot-first.safetensors
mkdir -p runs

train() {
    out=$1
    shift
    [ -f "$out" ] && return
    resume=
    [ ! -f "runs/$(basename "$out" .safetensors).ckpt" ] || resume=--resume
    fcnet train --out "$out" "$@" $resume
}

fcnet collect --config "config/collect/$robot.yaml" --out "data/$robot"
train "$first" --config config/train/imitation.yaml --data "data/$robot"
fcnet collect --config "config/collect/$robot-dagger.yaml" --student "$first" --seed 1 --out "data/$robot-dagger"
train "runs/$robot.safetensors" --config config/train/dagger.yaml \
    --data "data/$robot" --data "data/$robot-dagger:2" --init "$first"
echo "runs/$robot.safetensors is trained; measure it: fcnet evaluate --robot $robot --policy runs/$robot.safetensors"
